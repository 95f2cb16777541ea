"""Try it live: controls that train a small ensemble in the kernel and redraw a picture."""

import threading
import time
from collections.abc import Callable
from io import BytesIO

import ipywidgets as widgets
from matplotlib.figure import Figure


class Cancelled(Exception):
    """Raised inside a training that the reader has stopped."""


class Live(widgets.VBox):
    """Controls, a Train and a Cancel button, a progress bar and a picture.

    train(progress, **values) -> result: values are those of the controls by name; progress is
    a callback for `fit`, and Cancel takes effect where it is called.
    draw(figure, result): draws on an empty matplotlib figure of that size, in inches.
    controls: sliders by the names of train's arguments; one of them is `iterations`.
    trainings: how often train calls `fit`.
    Training runs in a thread of its own, so that the kernel goes on listening to the buttons. A
    setting that is changed after the first training starts another one.
    """

    def __init__(
        self, train: Callable, draw: Callable, controls: dict[str, widgets.ValueWidget],
        trainings: int, size: tuple[float, float] = (9, 3.4),
    ) -> None:  # fmt: skip
        self.train, self.draw, self.controls = train, draw, controls
        self.trainings, self.inches = trainings, size
        self.stop, self.thread = threading.Event(), threading.Thread()
        for name, widget in controls.items():
            widget.description = widget.description or name.replace("_", " ")
            widget.style, widget.layout.width = {"description_width": "11em"}, "30em"
            widget.continuous_update = False
            widget.observe(self._changed, "value")
        self.start = widgets.Button(description="Train", button_style="primary")
        self.cancel = widgets.Button(description="Cancel", disabled=True)
        self.bar = widgets.IntProgress(layout={"width": "14em"})
        self.status = widgets.Label("Choose the settings, then press Train.")
        self.picture = widgets.Image(format="png", layout={"display": "none"})
        self.picture.layout.max_width = "100%"
        self.start.on_click(lambda _: self._begin())
        self.cancel.on_click(lambda _: self.stop.set())
        row = widgets.HBox([self.start, self.cancel, self.bar, self.status])
        row.layout.flex_flow = "row wrap"
        super().__init__([*controls.values(), row, self.picture])

    def _changed(self, _):
        if self.picture.value or self.thread.is_alive():
            self._begin()

    def _begin(self):
        self.stop.set()
        if self.thread.is_alive():
            self.thread.join()  # it ends at its next iteration
        self.stop.clear()
        values = {name: widget.value for name, widget in self.controls.items()}
        self.cancel.disabled = False
        self.bar.value, self.bar.max = 0, values["iterations"] * self.trainings
        self.thread = threading.Thread(target=self._run, args=(values,), daemon=True)
        self.thread.start()

    def _run(self, values):
        began = time.perf_counter()
        try:
            result = self.train(self._progress(began), **values)
            self.bar.value = self.bar.max
            self.picture.value = self.drawn(result)
            self.picture.layout.display = "block"
            self.status.value = f"Trained in {time.perf_counter() - began:.1f} seconds."
        except Cancelled:
            self.status.value = "Cancelled. The picture is that of the last finished training."
        except Exception as error:  # a thread would keep it to itself
            self.status.value = f"The training failed: {type(error).__name__}: {error}"
        finally:
            self.cancel.disabled = True

    def _progress(self, began):
        """A callback for `fit` that moves the bar four times per second or raises Cancelled."""
        done, shown = 0, began

        def progress(*_):
            nonlocal done, shown
            if self.stop.is_set():
                raise Cancelled
            done, now = done + 1, time.perf_counter()
            if now - shown > 0.25:
                left = (now - began) / done * (self.bar.max - done)
                self.bar.value, shown = min(done, self.bar.max), now
                self.status.value = f"Training: about {max(left, 0):.0f} seconds left."

        return progress

    def drawn(self, result):
        figure = Figure(figsize=self.inches, layout="constrained", facecolor="white")
        self.draw(figure, result)
        file = BytesIO()
        figure.savefig(file, dpi=150, transparent=False)
        return file.getvalue()

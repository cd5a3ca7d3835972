// The slider over the iterations, and a button that plays them.

// Up to so many points the way from frame to frame is drawn as well.
const MOST_TO_GLIDE = 12000;
const STEP_TIME = 260; // milliseconds

class Player {
  constructor(rows, redraw) {
    this.rows = rows;
    this.redraw = redraw;
    this.playing = false;
    this.slider = $("iteration");
    this.button = $("play");
    if (rows.lastFrame === 0) return;
    $("player").hidden = false;
    this.slider.max = rows.lastFrame;
    this.slider.value = rows.lastFrame;
    this.slider.addEventListener("input", () => {
      this.stop();
      this.go(Number(this.slider.value));
    });
    this.button.addEventListener("click", () => (this.playing ? this.stop() : this.play()));
    this.say();
  }

  say() {
    const { iterations } = this.rows.data;
    const text = `iteration ${iterations[this.rows.frame]} of ${iterations[this.rows.lastFrame]}`;
    $("iteration-text").textContent = text;
    this.slider.setAttribute("aria-valuetext", text);
  }

  /** Shows a frame; returns when it is drawn. */
  async go(frame) {
    this.rows.frame = frame;
    this.rows.after = this.rows.pointsOf(frame);
    this.slider.value = frame;
    this.say();
    await this.redraw();
  }

  async play() {
    this.playing = true;
    this.button.textContent = "Pause";
    const glide = !stillWanted() && this.rows.n <= MOST_TO_GLIDE;
    const wait = stillWanted() ? 1000 : STEP_TIME;
    if (this.rows.frame === this.rows.lastFrame) await this.go(0);
    while (this.playing && this.rows.frame < this.rows.lastFrame) {
      const start = performance.now();
      if (glide) await this.glide(this.rows.frame + 1, wait);
      if (!this.playing) break;
      await this.go(this.rows.frame + 1);
      await pause(wait - (performance.now() - start));
    }
    this.stop();
  }

  /** Draws points between this frame and the next. */
  async glide(frame, time) {
    const [from, to] = [this.rows.after, this.rows.pointsOf(frame)];
    const start = performance.now();
    for (;;) {
      await new Promise(requestAnimationFrame);
      const share = (performance.now() - start) / time;
      if (share >= 0.9 || !this.playing) return;
      this.rows.after = from.map((values, axis) => values.map((v, i) => v + share * (to[axis][i] - v)));
      await this.redraw();
    }
  }

  stop() {
    this.playing = false;
    this.button.textContent = "Play";
  }
}

const pause = (milliseconds) => new Promise((done) => setTimeout(done, Math.max(milliseconds, 0)));

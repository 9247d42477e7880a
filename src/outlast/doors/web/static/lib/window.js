/** A virtual list: only the items near the viewport are in the document.
 *
 *  Every item has a key and a height, guessed until the item is drawn and then measured. The visible items stay in
 *  place when a height differs from the guess or when items are inserted before them. If the reader is at the end, the
 *  list stays at the end while it grows. */

const NEAR = 900; // pixels drawn above and below what is seen
const AT_END = 40;

export class WindowedList {
  /** `draw(key)` gives the node of an item, `guess(key)` its likely height; `follows` = it stays at its end;
   *  `holds(key)` = it stays where it is when others come in front; `onTop` is called near the beginning. */
  constructor(
    scroller,
    { draw, guess = () => 80, follows = true, holds = () => true, onTop = () => {}, onScroll = () => {} },
  ) {
    this.scroller = scroller;
    this.draw = draw;
    this.guess = guess;
    this.onTop = onTop;
    this.onScroll = onScroll;
    this.keys = [];
    this.index = new Map();
    this.heights = new Map();
    this.guesses = new Map();
    this.nodes = new Map();
    this.offsets = new Float64Array(1);
    this.stale = true;
    this.follows = follows;
    this.holds = holds;
    this.stick = follows;
    this.setTop = -1;
    this.lastTop = 0;
    this.space = document.createElement("div");
    this.body = document.createElement("div");
    this.space.className = "window";
    this.body.className = "window-body";
    this.space.append(this.body);
    scroller.append(this.space);
    this.watcher = new ResizeObserver((entries) => this.resized(entries));
    this.watcher.observe(scroller);
    this.scrolled = () => this.onScrolled();
    scroller.addEventListener("scroll", this.scrolled, { passive: true });
  }

  close() {
    this.watcher.disconnect();
    this.scroller.removeEventListener("scroll", this.scrolled);
    cancelAnimationFrame(this.frame);
  }

  /** These items, in this order. */
  show(keys) {
    const anchor = this.anchor();
    this.keys = keys;
    this.index = new Map(keys.map((key, n) => [key, n]));
    for (const [key] of this.nodes) if (!this.index.has(key)) this.remove(key);
    this.stale = true;
    this.render(anchor);
  }

  /** Redraw an item and restore its focus. */
  refresh(key) {
    this.guesses.delete(key);
    const before = this.nodes.get(key);
    if (!before) return;
    const at = usable(before).indexOf(document.activeElement);
    const anchor = this.anchor();
    this.remove(key);
    this.render(anchor);
    if (at >= 0) usable(this.nodes.get(key))[at]?.focus({ preventScroll: true });
  }

  toEnd() {
    this.stick = true;
    this.render(null);
  }

  toTop() {
    this.stick = false;
    this.scroller.scrollTop = this.setTop = this.lastTop = 0;
    this.render(null);
  }

  /** Bring an item into sight; false when it is not among them. */
  reveal(key) {
    if (!this.index.has(key)) return false;
    this.stick = false;
    this.render({ key, delta: Math.min(120, this.scroller.clientHeight / 3) });
    return true;
  }

  node(key) {
    return this.nodes.get(key) ?? null;
  }

  // --- where everything is

  layOut() {
    if (!this.stale) return;
    this.offsets = new Float64Array(this.keys.length + 1);
    let at = 0;
    for (let n = 0; n < this.keys.length; n++) {
      this.offsets[n] = at;
      at += this.heightOf(this.keys[n]);
    }
    this.offsets[this.keys.length] = at;
    this.stale = false;
  }

  heightOf(key) {
    const measured = this.heights.get(key);
    if (measured !== undefined) return measured;
    let guess = this.guesses.get(key);
    if (guess === undefined) this.guesses.set(key, (guess = this.guess(key)));
    return guess;
  }

  get total() {
    return this.offsets[this.keys.length];
  }

  /** The item at this height. */
  at(top) {
    let low = 0;
    let high = this.keys.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.offsets[middle] <= top) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** What is looked at: the first item in sight, and how far below the upper edge it begins. */
  anchor() {
    this.layOut();
    if (this.stick || !this.keys.length) return null;
    const top = this.scroller.scrollTop;
    let n = this.at(top);
    while (n < this.keys.length - 1 && (this.offsets[n + 1] < top + 1 || !this.holds(this.keys[n]))) n += 1;
    return { key: this.keys[n], delta: this.offsets[n] - top };
  }

  // --- drawing

  render(anchor) {
    const { scroller } = this;
    const height = scroller.clientHeight;
    if (!height) return; // it is not shown, and nothing can be measured
    let top = 0;
    for (let round = 0; round < 8 && (this.stale || !round); round++) {
      this.layOut();
      top = this.target(anchor, height);
      this.drawRange(top - NEAR, top + height + NEAR);
      this.measure();
    }
    this.layOut(); // what is looked at is found by these offsets: they must be those of what is drawn
    top = this.target(anchor, height);
    this.position();
    if (Math.abs(scroller.scrollTop - top) >= 1) {
      scroller.scrollTop = top;
      this.setTop = this.lastTop = scroller.scrollTop;
    }
    this.seen = this.anchor();
    this.onScroll(this);
    if (top < NEAR) this.onTop();
  }

  target(anchor, height) {
    const last = Math.max(0, this.total - height);
    if (this.stick) return last;
    const n = anchor ? this.index.get(anchor.key) : undefined;
    return Math.min(last, Math.max(0, n === undefined ? this.scroller.scrollTop : this.offsets[n] - anchor.delta));
  }

  /** Draw what lies there and nothing else. */
  drawRange(from, to) {
    const first = this.keys.length ? this.at(Math.max(0, from)) : 0;
    const last = this.keys.length ? this.at(Math.max(0, to)) : -1;
    for (const [key] of this.nodes) {
      const n = this.index.get(key);
      if (n < first || n > last) this.remove(key);
    }
    let before = null;
    for (let n = last; n >= first; n--) before = this.place(this.keys[n], before);
    this.first = first;
    this.position();
  }

  position() {
    this.space.style.height = `${this.total}px`;
    this.body.style.transform = `translateY(${this.offsets[this.first] ?? 0}px)`;
  }

  place(key, before) {
    let node = this.nodes.get(key);
    if (!node) {
      node = this.draw(key);
      this.nodes.set(key, node);
      this.watcher.observe(node);
    }
    if (node.nextSibling !== before || node.parentNode !== this.body) this.move(node, before);
    node.setAttribute("aria-posinset", this.index.get(key) + 1);
    node.setAttribute("aria-setsize", this.keys.length);
    return node;
  }

  /** One that is moved keeps the focus. */
  move(node, before) {
    const focused = node.contains(document.activeElement) ? document.activeElement : null;
    this.body.insertBefore(node, before);
    focused?.focus({ preventScroll: true });
  }

  remove(key) {
    const node = this.nodes.get(key);
    this.watcher.unobserve(node);
    this.nodes.delete(key);
    if (node.contains(document.activeElement)) this.scroller.focus({ preventScroll: true });
    node.remove();
  }

  /** True when a height turned out to be another one. */
  measure() {
    let changed = false;
    for (const [key, node] of this.nodes) {
      const height = node.getBoundingClientRect().height;
      if (Math.abs((this.heights.get(key) ?? -1) - height) > 0.25) {
        this.heights.set(key, height);
        changed = this.stale = true;
      }
    }
    return changed;
  }

  // --- what the reader and the items do

  onScrolled() {
    if (!this.scroller.clientHeight) return;
    const { scrollTop, clientHeight, scrollHeight } = this.scroller;
    const left = scrollHeight - clientHeight - scrollTop;
    if (this.follows && left <= 2)
      this.stick = true; // also when it became shorter, and was moved by that
    else if (scrollTop !== this.setTop) this.stick = this.follows && left <= AT_END && scrollTop > this.lastTop;
    this.lastTop = scrollTop;
    this.setTop = -1;
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.render(this.anchor()));
  }

  resized(entries) {
    if (!this.scroller.clientHeight) {
      this.wasHidden = true;
      return;
    }
    // By the old heights: that is what was being looked at. One that was hidden has forgotten where it was.
    const anchor = this.wasHidden && !this.stick ? this.seen : this.anchor();
    const own = entries.some((entry) => entry.target === this.scroller);
    this.wasHidden = false;
    if (this.measure() || own) this.render(anchor);
  }
}

/** What can have the focus in it, itself included. */
function usable(node) {
  if (!node) return [];
  return [node, ...node.querySelectorAll("a, button, [tabindex]")].filter((one) => one.tabIndex >= 0);
}

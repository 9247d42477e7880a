/** Pictures attached to a message: chosen, pasted or dropped; shown as thumbnails, each with a button to remove it. */

import { el, replace } from "../lib/dom.js";
import { icon } from "../lib/icons.js";
import { oneLine } from "../lib/invisible.js";
import { toast } from "../widgets/toast.js";

const TYPES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const LARGEST = 5 * 1024 * 1024;
const MOST = 8;

export class Attachments {
  constructor(onChange) {
    this.items = []; // {name, media_type, data}
    this.onChange = onChange;
    this.node = el("div.chosen", { "aria-label": "Attached pictures", role: "group", hidden: true });
    this.input = el("input", { type: "file", accept: TYPES.join(","), multiple: true, hidden: true, tabindex: "-1" });
    this.input.addEventListener("change", () => {
      this.take(this.input.files);
      this.input.value = "";
    });
    this.button = el(
      "button.quiet.tool-button",
      { type: "button", title: "Attach pictures", "aria-label": "Attach pictures" },
      icon("clip"),
    );
    this.button.addEventListener("click", () => this.input.click());
  }

  /** Pictures among these files; others are refused with a word. */
  async take(files) {
    for (const file of files) {
      if (!TYPES.includes(file.type))
        toast(`${oneLine(file.name, 60)} cannot be sent: only PNG, JPEG, GIF and WebP pictures can`, "warn");
      else if (file.size > LARGEST) toast(`${oneLine(file.name, 60)} is larger than 5 MB`, "warn");
      else if (this.items.length >= MOST) toast(`At most ${MOST} pictures in one message`, "warn");
      else
        this.items.push({
          name: file.name.slice(0, 200) || "picture",
          media_type: file.type,
          data: await base64(file),
        });
    }
    this.show();
  }

  /** Put these back, before those that are here. */
  restore(items) {
    this.items.unshift(...items);
    this.show();
  }

  clear() {
    this.items = [];
    this.show();
  }

  show() {
    this.node.hidden = !this.items.length;
    replace(
      this.node,
      this.items.map((item) => {
        const image = el("img");
        image.alt = item.name;
        image.src = `data:${item.media_type};base64,${item.data}`;
        const label = `Remove ${oneLine(item.name, 40)}`;
        const remove = el("button.quiet.small", { type: "button", title: label, "aria-label": label }, icon("cross"));
        remove.addEventListener("click", () => {
          this.items = this.items.filter((other) => other !== item);
          this.show();
        });
        return el("span.chosen-one", {}, image, remove);
      }),
    );
    this.onChange();
  }
}

async function base64(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (let n = 0; n < bytes.length; n += 0x8000) text += String.fromCharCode(...bytes.subarray(n, n + 0x8000));
  return btoa(text);
}

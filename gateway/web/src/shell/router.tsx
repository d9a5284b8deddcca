// History routes: the address is the page's state, and a reload shows the same page.

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";

/** Where the person is. */
export const address = signal(new URL(location.href));

window.addEventListener("popstate", () => {
  address.value = new URL(location.href);
});

export function navigate(to: string, { replace = false } = {}): void {
  const target = new URL(to, location.origin);
  const step = (url: URL) => url.pathname + (url.searchParams.get("show") ?? "");
  const moved = step(target) !== step(address.value);
  history[replace ? "replaceState" : "pushState"](null, "", target);
  address.value = target;
  if (moved) scrollTo(0, 0);
}

/** The parts of `path` that `pattern` names (`/events/:id`), or null when it is another page. */
export function match(pattern: string, path: string): Record<string, string> | null {
  const wanted = pattern.split("/");
  const given = path.replace(/(.)\/$/, "$1").split("/");
  if (wanted.length !== given.length) return null;
  const names: Record<string, string> = {};
  for (const [index, part] of wanted.entries()) {
    const value = given[index] ?? "";
    if (part.startsWith(":")) names[part.slice(1)] = safelyDecoded(value);
    else if (part !== value) return null;
  }
  return names;
}

interface LinkProps {
  to: string;
  class?: string;
  "aria-label"?: string;
  children: ComponentChildren;
}

/** An ordinary link that stays in the page on an ordinary click. */
export function Link({ to, children, ...rest }: LinkProps) {
  const follow = (event: MouseEvent) => {
    if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    navigate(to);
  };
  return (
    <a href={to} onClick={follow} {...rest}>
      {children}
    </a>
  );
}

function safelyDecoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

import { FitAddon } from '@xterm/addon-fit';
import { Terminal } from '@xterm/xterm';

export interface Screen {
  readonly columns: number;
  readonly rows: number;
  write(bytes: Uint8Array | string): void;
  focus(): void;
  dispose(): void;
}
export interface ScreenHandlers {
  onInput(text: string): void;
  onResize(columns: number, rows: number): void;
  /** Called when the user leaves the terminal with the keyboard. */
  onLeave(): void;
}

/**
 * Redirects the style elements of the terminal into constructed style sheets. The content security policy forbids inline styles, and a style element
 * with text is one.
 */
function allowStyleElements(): () => void {
  const { createElement } = document;
  const sheets = new Set<CSSStyleSheet>();
  const create = (name: string, options?: ElementCreationOptions): HTMLElement => {
    if (name.toLowerCase() !== 'style') return createElement.call(document, name, options);
    const sheet = new CSSStyleSheet();
    sheets.add(sheet);
    document.adoptedStyleSheets.push(sheet);
    // the policy also rejects empty style elements
    const element = createElement.call(document, 'meta');
    const setText = (css: string): void => {
      sheet.replaceSync(css);
    };
    Object.defineProperty(element, 'textContent', { set: setText, get: () => '' });
    return element;
  };
  document.createElement = create as typeof document.createElement;
  return () => {
    document.createElement = createElement;
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((sheet) => !sheets.has(sheet));
  };
}

const colorsOf = (element: HTMLElement) => {
  const style = getComputedStyle(element);
  return { background: style.backgroundColor, foreground: style.color, cursor: style.color };
};

/**
 * Shows a terminal in the element. The terminal gives programs no access to the clipboard, and opens no links; titles are ignored.
 */
export function openScreen(element: HTMLElement, { onInput, onResize, onLeave }: ScreenHandlers): Screen {
  const restore = allowStyleElements();
  const terminal = new Terminal({
    cursorBlink: false,
    fontSize: 13,
    scrollback: 5_000,
    screenReaderMode: true,
    theme: colorsOf(element),
    linkHandler: { activate: () => undefined },
  });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  terminal.open(element);
  fit.fit();
  let lastEscapeAt = 0;
  terminal.attachCustomKeyEventHandler((event) => {
    if (event.type !== 'keydown' || event.key !== 'Escape') return true;
    const isSecond = event.timeStamp - lastEscapeAt < 600;
    lastEscapeAt = event.timeStamp;
    if (isSecond) onLeave();
    return !isSecond;
  });
  terminal.onData(onInput);
  terminal.onResize(({ cols, rows }) => onResize(cols, rows));
  const observer = new ResizeObserver(() => fit.fit());
  observer.observe(element);
  return {
    get columns() {
      return terminal.cols;
    },
    get rows() {
      return terminal.rows;
    },
    write: (bytes) => terminal.write(bytes),
    focus: () => terminal.focus(),
    dispose() {
      observer.disconnect();
      terminal.dispose();
      restore();
    },
  };
}

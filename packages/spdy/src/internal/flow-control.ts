import { SpdyError } from '../frames.ts';

/** Initial window of a stream and of the session, until SETTINGS change it (SPDY/3.1, section 2.6.8). */
const initialWindow = 64 * 1024;
/** Minimum increment of a WINDOW_UPDATE. */
const creditStep = 16 * 1024;
const session = 0;

interface Window {
  send: number;
  receive: number;
  owed: number;
}
const newWindow = (send: number): Window => ({ send, receive: initialWindow, owed: 0 });

/** Tracks how many bytes may be sent and received on each stream and on the session. Without flow control nothing is limited. */
export class FlowControl {
  readonly #kept: boolean;
  readonly #credit: (stream: number, delta: number) => void;
  readonly #windows = new Map([[session, newWindow(initialWindow)]]);
  #peerInitial = initialWindow;

  /** `credit` sends a WINDOW_UPDATE to the peer; stream 0 is the session. */
  constructor(kept: boolean, credit: (stream: number, delta: number) => void) {
    this.#kept = kept;
    this.#credit = credit;
  }

  open(stream: number): void {
    this.#windows.set(stream, newWindow(this.#peerInitial));
  }
  forget(stream: number): void {
    this.#windows.delete(stream);
  }

  /** Returns the number of bytes that may be sent now. */
  sendable(stream: number): number {
    if (!this.#kept) return Number.POSITIVE_INFINITY;
    return Math.min(this.#windows.get(stream)?.send ?? 0, this.#sessionWindow.send);
  }
  get sessionIsFull(): boolean {
    return this.#kept && this.#sessionWindow.send <= 0;
  }
  sent(stream: number, bytes: number): void {
    if (!this.#kept) return;
    const window = this.#windows.get(stream);
    if (window) window.send -= bytes;
    this.#sessionWindow.send -= bytes;
  }

  /** Returns whether the peer respected the stream's window. @throws SpdyError `Protocol` if it exceeded the session's window */
  received(stream: number, bytes: number): boolean {
    if (!this.#kept) return true;
    const window = this.#windows.get(stream);
    for (const one of [this.#sessionWindow, window]) {
      if (!one) continue;
      one.receive -= bytes;
      one.owed += bytes;
    }
    if (this.#sessionWindow.receive < 0) throw new SpdyError('Protocol', 'the peer exceeded the window of the session');
    return window === undefined || window.receive >= 0;
  }

  /** Returns credit for bytes that the consumer has read. */
  consumed(stream: number): void {
    if (!this.#kept) return;
    for (const id of [stream, session]) {
      const window = this.#windows.get(id);
      if (!window || window.owed < creditStep) continue;
      this.#credit(id, window.owed);
      window.receive += window.owed;
      window.owed = 0;
    }
  }

  /** Handles a WINDOW_UPDATE. @throws SpdyError `Protocol` if the window exceeds the maximum */
  handleWindowUpdate(stream: number, delta: number): void {
    const window = this.#kept ? this.#windows.get(stream) : undefined;
    if (!window) return;
    window.send += delta;
    if (window.send > 0x7fffffff) throw new SpdyError('Protocol', 'the peer exceeded the maximum window size');
  }

  /** Applies the peer's initial window size; the windows of open streams change by the difference. */
  setPeerInitialWindow(size: number): void {
    for (const [id, window] of this.#windows) if (id !== session) window.send += size - this.#peerInitial;
    this.#peerInitial = size;
  }

  get #sessionWindow(): Window {
    return this.#windows.get(session) as Window;
  }
}

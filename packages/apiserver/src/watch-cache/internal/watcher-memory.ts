/** A watch event as the accounting sees it. */
export interface AccountedFrame {
  /** Encoded size of the object before and after the change, with an overhead per event. */
  readonly bytes: number;
  /** Number of watchers that hold the frame. */
  holders: number;
  /** Called when no watcher holds the frame any more. */
  releaseEncodings(): void;
}

/** A watcher that holds frames: queued ones, and those that its reader has taken and not written yet. */
export interface AccountedWatcher {
  readonly heldBytes: number;
  /** Milliseconds of the monotonic clock of the reader's last read. */
  readonly lastReadAt: number;
  /** Releases all frames. */
  terminate(): void;
}

/**
 * Bounds the bytes of the frames that watchers hold. A frame that several watchers hold is one object in memory and counts once. Beyond
 * `maxBytes`, the watchers that hold the most bytes for the longest time are terminated.
 */
export class WatcherMemory {
  readonly maxBytes: number;
  readonly #holding = new Set<AccountedWatcher>();
  #bytes = 0;

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Records that a watcher holds another frame. */
  hold(watcher: AccountedWatcher, frame: AccountedFrame): void {
    this.#holding.add(watcher);
    if (frame.holders++ === 0) this.#bytes += frame.bytes;
  }

  /** Records that a watcher holds a frame no more. */
  release(frame: AccountedFrame): void {
    if (--frame.holders > 0) return;
    this.#bytes -= frame.bytes;
    frame.releaseEncodings();
  }

  /** Records that a watcher holds no frames. */
  remove(watcher: AccountedWatcher): void {
    this.#holding.delete(watcher);
  }

  /** Terminates watchers until the bound holds. `now` is in milliseconds of the monotonic clock. */
  enforce(now: number): void {
    if (this.#bytes <= this.maxBytes) return;
    const weight = ({ heldBytes, lastReadAt }: AccountedWatcher) => heldBytes * (now - lastReadAt + 1);
    const slowestFirst = [...this.#holding].sort((a, b) => weight(b) - weight(a));
    for (const watcher of slowestFirst) {
      if (this.#bytes <= this.maxBytes) return;
      watcher.terminate();
    }
  }
}

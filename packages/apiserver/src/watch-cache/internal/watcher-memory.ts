/** The properties of a watch event that memory accounting needs. */
export interface AccountedFrame {
  /** The encoded size of the object before and after the change, with an overhead per event. */
  readonly bytes: number;
  /** The number of watchers that hold the frame. */
  holders: number;
  /** Releases the cached encodings. Called when no watcher holds the frame. */
  releaseEncodings(): void;
}

/** The properties of a watcher that memory accounting needs. A watcher holds queued frames, and frames that its reader has taken but not written. */
export interface AccountedWatcher {
  readonly heldBytes: number;
  /** The time of the reader's last read in milliseconds of the monotonic clock. */
  readonly lastReadAt: number;
  /** Terminates the watcher and releases all its frames. */
  terminate(): void;
}

/**
 * Limits the bytes of the frames that watchers hold. A frame that several watchers hold counts once. Beyond `maxBytes`, the watchers that have held
 * the most bytes for the longest time are terminated.
 */
export class WatcherMemory {
  readonly maxBytes: number;
  readonly #watchers = new Set<AccountedWatcher>();
  #bytes = 0;

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Adds a watcher, which may hold frames until it is removed. */
  add(watcher: AccountedWatcher): void {
    this.#watchers.add(watcher);
  }

  /** Removes a watcher that does not hold any frames and will not hold any again. */
  remove(watcher: AccountedWatcher): void {
    this.#watchers.delete(watcher);
  }

  /** Records that one more watcher holds a frame. */
  hold(frame: AccountedFrame): void {
    if (frame.holders++ === 0) this.#bytes += frame.bytes;
  }

  /** Records that a watcher does not hold a frame any more. */
  release(frame: AccountedFrame): void {
    if (--frame.holders > 0) return;
    this.#bytes -= frame.bytes;
    frame.releaseEncodings();
  }

  /** Terminates watchers until the frames are within the limit. `now` is in milliseconds of the monotonic clock. */
  enforce(now: number): void {
    if (this.#bytes <= this.maxBytes) return;
    const weight = ({ heldBytes, lastReadAt }: AccountedWatcher) => heldBytes * (now - lastReadAt + 1);
    const slowestFirst = [...this.#watchers].filter(({ heldBytes }) => heldBytes > 0).sort((a, b) => weight(b) - weight(a));
    for (const watcher of slowestFirst) {
      if (this.#bytes <= this.maxBytes) return;
      watcher.terminate();
    }
  }
}

import type { Revision } from '@oarlock/spi/storage';
import { CommitLog } from './commit-log.ts';
import type { KeyHistory, Version } from './key-history.ts';
import type { MvccLimits } from './mvcc-limits.ts';
import { PastRanges, turn } from './past-ranges.ts';

/** What a change costs beside the value it replaced: its objects, its place in the log. */
const changeBytes = 256;
/** Work done at a stretch, so that nobody waits long for the event loop. */
const slice = { forgotten: 2_000, trimmed: 64 };

type PastLimits = Pick<MvccLimits, 'historyChanges' | 'historyBytes'>;

/** All versions in the order they were written, and how far back they can be read: what is older is refused at once, and cleared away at leisure. */
export class PastVersions {
  readonly log = new CommitLog();
  readonly ranges = new PastRanges();
  readonly #limits: PastLimits;
  readonly #forgotten: (history: KeyHistory) => void;
  #compacted: Revision = 0;
  #held: Revision = Infinity;
  #bytes = 0;

  /** `forgotten` is told of each key that stands no more and has no version left. */
  constructor(limits: PastLimits, forgotten: (history: KeyHistory) => void) {
    this.#limits = limits;
    this.#forgotten = forgotten;
  }

  /** The oldest revision that can be read. */
  get compacted(): Revision {
    return this.#compacted;
  }
  /** The revision that is held; infinite when none is. */
  get held(): Revision {
    return this.#held;
  }
  get bytes(): number {
    return this.#bytes;
  }

  record(version: Version): void {
    version.history.add(version);
    this.log.push(version);
    this.#bytes += version.replaced + changeBytes;
  }

  /** Refuses what is older, and clears nothing away yet. */
  compactTo(revision: Revision): void {
    this.#compacted = revision;
    this.ranges.compact(revision);
  }

  /** Keeps the state at the oldest readable revision until `release`, compacted meanwhile or not. One at a time. */
  hold(): { readonly revision: Revision; release(): void } {
    const revision = this.#compacted;
    this.#held = revision;
    return {
      revision,
      release: () => {
        this.#held = Infinity;
        void this.sweep();
      },
    };
  }

  /** Compacts the oldest commits when there are too many. Each commit pays for about one. */
  trim(): void {
    const { historyChanges, historyBytes } = this.#limits;
    for (let done = 0; done < slice.trimmed; done += 1) {
      const { oldest } = this.log;
      // what is held cannot be cleared away: that is made up for later
      if (!oldest || oldest.revision > this.#held || (this.log.size <= historyChanges && this.#bytes <= historyBytes)) return;
      if (oldest.revision > this.#compacted) this.compactTo(oldest.revision);
      this.#forget(1);
    }
  }

  /** Clears away what is compacted, in pieces. */
  async sweep(): Promise<void> {
    while (!this.#forget(slice.forgotten)) await turn();
  }

  /** Clears away compacted versions, at most so many. Returns whether none is left. */
  #forget(limit: number): boolean {
    const until = Math.min(this.#compacted, this.#held);
    for (let done = 0; done < limit; done += 1) {
      const version = this.log.oldest;
      if (!version || version.revision > until) return true;
      this.log.shift();
      this.#bytes -= version.replaced + changeBytes;
      version.change = undefined;
      const { history } = version;
      history.forgetBefore(version);
      if (history.forgotten) this.#forgotten(history);
    }
    return false;
  }
}

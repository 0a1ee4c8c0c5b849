import type { Revision } from '@oarlock/spi/storage';
import { CommitLog } from './commit-log.ts';
import type { KeyHistory, Version } from './key-history.ts';
import type { MvccLimits } from '../mvcc-limits.ts';
import { HistoricalRanges, nextTurn } from './historical-ranges.ts';

/** Estimated memory of a change in bytes, in addition to the value that the change replaced. */
const changeBytes = 256;
/** Limits of synchronous work per turn of the event loop. */
const slice = { forgotten: 2_000, trimmed: 64 };

type PastLimits = Pick<MvccLimits, 'historyChanges' | 'historyBytes'>;

/**
 * All versions ordered by revision, and the oldest readable revision. Reads at compacted revisions fail immediately; the versions are removed
 * in the background.
 */
export class VersionHistory {
  readonly log = new CommitLog();
  readonly ranges = new HistoricalRanges();
  readonly #limits: PastLimits;
  readonly #forgotten: (history: KeyHistory) => void;
  #compacted: Revision = 0;
  #held: Revision = Infinity;
  #bytes = 0;

  /** Calls `forgotten` for each key that does not exist and has no version left. */
  constructor(limits: PastLimits, forgotten: (history: KeyHistory) => void) {
    this.#limits = limits;
    this.#forgotten = forgotten;
  }

  /** The oldest revision that can be read. */
  get compacted(): Revision {
    return this.#compacted;
  }
  /** The revision that `hold` keeps readable; Infinity if no hold is active. */
  get held(): Revision {
    return this.#held;
  }
  get bytes(): number {
    return this.#bytes;
  }

  record(version: Version): void {
    version.history.add(version);
    this.log.push(version);
    this.#bytes += version.replacedBytes + changeBytes;
  }

  /** Makes revisions before `revision` unreadable immediately; `sweep` removes the versions later. */
  compactTo(revision: Revision): void {
    this.#compacted = revision;
    this.ranges.compact(revision);
  }

  /**
   * Keeps the state at the oldest readable revision, even if that revision is compacted, until `release` is called. At most one hold can be
   * active at a time.
   */
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

  /** Compacts the oldest commits if the history exceeds its limits. In steady state, each commit removes about one. */
  trim(): void {
    const { historyChanges, historyBytes } = this.#limits;
    for (let done = 0; done < slice.trimmed; done += 1) {
      const { oldest } = this.log;
      // a held revision cannot be removed; later calls catch up
      if (!oldest || oldest.revision > this.#held || (this.log.size <= historyChanges && this.#bytes <= historyBytes)) return;
      if (oldest.revision > this.#compacted) this.compactTo(oldest.revision);
      this.#forget(1);
    }
  }

  /** Removes all compacted versions, in slices over several turns of the event loop. */
  async sweep(): Promise<void> {
    while (!this.#forget(slice.forgotten)) await nextTurn();
  }

  /** Removes at most `limit` compacted versions. Returns true if no compacted version is left. */
  #forget(limit: number): boolean {
    const until = Math.min(this.#compacted, this.#held);
    for (let done = 0; done < limit; done += 1) {
      const version = this.log.oldest;
      if (!version || version.revision > until) return true;
      this.log.shift();
      this.#bytes -= version.replacedBytes + changeBytes;
      version.change = undefined;
      const { history } = version;
      history.forgetBefore(version);
      if (history.isEmpty) this.#forgotten(history);
    }
    return false;
  }
}

import type { Change, ChangeBatch, Revision } from '@oarlock/spi/storage';
import type { CommitLog } from './commit-log.ts';
import type { KeyHistory, Version } from './key-history.ts';
import { endOfPrefix, sortKey } from './sort-key.ts';
import type { BTree } from '@oarlock/primitives/collections/btree';

const changesPerBatch = 1_000;

/**
 * Returns the changes to keys under a prefix after a revision, in batches of whole commits. Reads the commit log or the history of each key,
 * whichever requires fewer steps.
 */
export function readBacklog(log: CommitLog, all: BTree<KeyHistory>, prefix: string, after: Revision): ChangeBatch[] {
  const first = log.after(after);
  const from = sortKey(prefix);
  const end = endOfPrefix(from);
  const keys = all.rank(end) - all.rank(from);
  const versions: Version[] = [];
  if (keys < log.size - first) {
    all.ascendFrom(from, (history, key) => {
      if (end !== undefined && key >= end) return false;
      history.since(after, versions);
      return true;
    });
    versions.sort((a, b) => a.revision - b.revision);
  } else {
    for (let at = first; at < log.size; at += 1) {
      const version = log.at(at);
      if (version.history.key.startsWith(prefix)) versions.push(version);
    }
  }
  const batches: ChangeBatch[] = [];
  let changes: Change[] = [];
  versions.forEach((version, at) => {
    if (version.change) changes.push(version.change);
    const next = versions[at + 1]?.revision;
    if (next !== undefined && (changes.length < changesPerBatch || next === version.revision)) return;
    batches.push({ changes, revision: version.revision });
    changes = [];
  });
  return batches;
}

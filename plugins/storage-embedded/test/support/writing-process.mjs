// Writes and watches until it is killed, and sends a WriterMessage for each acknowledged commit and each event. In JavaScript, because it runs with the built packages.
import { EmbeddedStorage } from '@oarlock/storage-embedded/embedded-storage';

const [directory = '', round = '', after = '0'] = process.argv.slice(2);
const writers = 16;
const keep = 3_000;
const report = (message) => process.send?.(message);
// the minimum sizes, so that the process is also killed during changes of files and snapshots
const storage = new EmbeddedStorage({ directory, segmentBytes: 128 * 1024, snapshotBytes: 128 * 1024 });
await storage.start();
report({});

void (async () => {
  for await (const { changes, revision } of storage.watch('/', { after: Number(after), signal: new AbortController().signal }))
    report({ seen: changes, position: revision });
})();
for (let writer = 0; writer < writers; writer += 1) {
  void (async () => {
    for (let at = 0; ; at += 1) {
      const value = `${round}/${writer}/${at}`;
      const remove = at % 5 === 4;
      const commit = await storage.commit(
        [
          { key: `/left/${writer}/${at % 50}`, value: remove ? null : Buffer.from(value.padEnd(200 + ((at * 37) % 1500), '.')) },
          { key: `/right/${writer}`, value: Buffer.from(value) },
        ],
        [],
      );
      if (commit.ok) report({ acknowledged: [[commit.revision, value]] });
      if (commit.ok && commit.revision % 500 === 0 && commit.revision > keep) await storage.compact(commit.revision - keep);
    }
  })();
}

import type { Entry, Page, StorageDriver } from '@oarlock/spi/storage';

const pageEntries = 500;

/** Yields the pages of a prefix at one revision: the given one, or that of the first page. @throws StorageError */
export async function* rangePages(storage: StorageDriver, prefix: string, atRevision?: number): AsyncGenerator<Page> {
  let revision = atRevision;
  let after: string | undefined;
  for (;;) {
    const page = await storage.range({
      prefix,
      limit: pageEntries,
      ...(revision !== undefined && { revision }),
      ...(after !== undefined && { after }),
    });
    revision ??= page.revision;
    yield page;
    after = page.entries.at(-1)?.key;
    if (!page.more || after === undefined) return;
  }
}

/** Reads all entries of a prefix at one revision. @throws StorageError */
export async function readEntries(
  storage: StorageDriver,
  prefix: string,
): Promise<{ readonly entries: readonly Entry[]; readonly revision: number }> {
  const entries: Entry[] = [];
  let revision = 0;
  for await (const page of rangePages(storage, prefix)) {
    revision = page.revision;
    entries.push(...page.entries);
  }
  return { entries, revision };
}

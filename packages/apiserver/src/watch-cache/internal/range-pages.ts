import type { Entry, Page, StorageDriver } from '@oarlock/spi/storage';

const pageEntries = 500;

/**
 * Yields the entries of a prefix page by page, all at one revision: `atRevision`, or the revision of the first page.
 * @throws StorageError if storage fails or the revision is compacted
 */
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

/** Returns all entries of a prefix at one revision. @throws StorageError if storage fails or the revision is compacted */
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

import type { Target } from './target.ts';

/** The table of packet rules that has the map `destinations`. */
export const relayTable = 'oarlock-relay';

type Client = Pick<Target, 'protocol' | 'address' | 'port'>;
/** Runs nft, and returns what it prints; undefined if it fails. */
export type RunNft = (args: readonly string[]) => Promise<string | undefined>;
interface Waiting {
  readonly key: string;
  readonly protocol: Target['protocol'];
  resolve(target: Target | undefined): void;
}

const maxBatch = 128;
const keyOf = ({ protocol, address, port }: Client) => `${address} . ${protocol} . ${port}`;

/**
 * Finds where redirected connections and datagrams were sent to. Node.js cannot read the original destination of a connection from the kernel, so the packet
 * rules store it in a map of nftables before they redirect. Lookups that arrive while nft runs share its next run, in which each source takes its turn.
 */
export class OriginalDestinations {
  readonly #run: RunNft;
  readonly #waiting = new Map<string, Waiting[]>();
  #isRunning = false;

  constructor(run: RunNft) {
    this.#run = run;
  }

  /** Returns the destination of a client's packets; undefined if the kernel does not have it. */
  find(client: Client): Promise<Target | undefined> {
    return new Promise((resolve) => {
      const ofSource = this.#waiting.get(client.address) ?? [];
      this.#waiting.set(client.address, ofSource);
      ofSource.push({ key: keyOf(client), protocol: client.protocol, resolve });
      if (!this.#isRunning) void this.#work();
    });
  }

  async #work(): Promise<void> {
    this.#isRunning = true;
    while (this.#waiting.size > 0) {
      const groups = this.#nextBatch();
      if (await this.#lookup(groups.flat())) continue;
      // one key that is missing fails the whole request: sources with few lookups do not wait for those with many
      for (const group of groups.toSorted((one, other) => one.length - other.length)) await this.#search(group);
    }
    this.#isRunning = false;
  }

  /** Takes the same number of lookups of each source. Sources with more of them are the last in the next batch. */
  #nextBatch(): readonly (readonly Waiting[])[] {
    const quota = Math.max(1, Math.floor(maxBatch / this.#waiting.size));
    return [...this.#waiting].slice(0, maxBatch).map(([source, waiting]) => {
      this.#waiting.delete(source);
      if (waiting.length > quota) this.#waiting.set(source, waiting.slice(quota));
      return waiting.slice(0, quota);
    });
  }

  /** Looks up clients of which the kernel may not know some. */
  async #search(group: readonly Waiting[]): Promise<void> {
    if (await this.#lookup(group)) return;
    if (group.length === 1) {
      for (const { resolve } of group) resolve(undefined);
      return;
    }
    const half = group.length >> 1;
    await this.#search(group.slice(0, half));
    await this.#search(group.slice(half));
  }

  /** Returns false, and resolves none, if nft fails. */
  async #lookup(batch: readonly Waiting[]): Promise<boolean> {
    const keys = [...new Set(batch.map(({ key }) => key))];
    const output = await this.#run(['get', 'element', 'ip', relayTable, 'destinations', `{ ${keys.join(', ')} }`]);
    if (output === undefined) return false;
    const found = parseDestinations(output);
    for (const { key, protocol, resolve } of batch) {
      const destination = found.get(key);
      resolve(destination && { protocol, ...destination });
    }
    return true;
  }
}

/** Reads the elements that nft prints, such as `192.0.2.2 . tcp . 40000 expires 59s : 198.51.100.7 . 443`. */
export function parseDestinations(output: string): ReadonlyMap<string, Omit<Target, 'protocol'>> {
  const elements = output.matchAll(/([\d.]+) \. (tcp|udp) \. (\d+)(?: (?:timeout|expires) \S+)* : ([\d.]+) \. (\d+)/g);
  return new Map(
    Array.from(elements, ([, source, protocol, sourcePort, address = '', port]) => [
      `${source} . ${protocol} . ${sourcePort}`,
      { address, port: Number(port) },
    ]),
  );
}

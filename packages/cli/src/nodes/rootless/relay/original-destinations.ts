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
 * rules store it in a map of nftables before they redirect. Lookups that arrive while nft runs share its next run.
 */
export class OriginalDestinations {
  readonly #run: RunNft;
  #waiting: Waiting[] = [];
  #isRunning = false;

  constructor(run: RunNft) {
    this.#run = run;
  }

  /** Returns the destination of a client's packets; undefined if the kernel does not have it. */
  find(client: Client): Promise<Target | undefined> {
    return new Promise((resolve) => {
      this.#waiting.push({ key: keyOf(client), protocol: client.protocol, resolve });
      if (!this.#isRunning) void this.#work();
    });
  }

  async #work(): Promise<void> {
    this.#isRunning = true;
    while (this.#waiting.length > 0) await this.#lookup(this.#waiting.splice(0, maxBatch));
    this.#isRunning = false;
  }

  async #lookup(batch: readonly Waiting[]): Promise<void> {
    const keys = [...new Set(batch.map(({ key }) => key))];
    const output = await this.#run(['get', 'element', 'ip', relayTable, 'destinations', `{ ${keys.join(', ')} }`]);
    // one key that is missing fails the whole request
    if (output === undefined && batch.length > 1) {
      for (const one of batch) await this.#lookup([one]);
      return;
    }
    const found = parseDestinations(output ?? '');
    for (const { key, protocol, resolve } of batch) {
      const destination = found.get(key);
      resolve(destination && { protocol, ...destination });
    }
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

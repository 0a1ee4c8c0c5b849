import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { isIPv6 } from 'node:net';
import { createInterface } from 'node:readline';
import type { ServicePort } from '@oarlock/spi/proxy';
import { endpointName, type Family } from './port-rules.ts';

/** A UDP frontend and the endpoints that its conntrack entries may use. Without `address`, the frontend is a node port. */
export interface UdpFrontend {
  readonly address: string | undefined;
  readonly port: number;
  /** The `endpointName` of every endpoint. */
  readonly endpoints: ReadonlySet<string>;
}

interface Flow {
  readonly src: string;
  readonly dst: string;
  readonly sport: string;
  readonly dport: string;
  readonly replySrc: string;
  readonly replyPort: string;
}

/**
 * Parses a line of the conntrack tool, `udp 17 29 src=a dst=b sport=1 dport=2 src=c dst=a sport=3 dport=1 ...`: the original direction, then
 * the reply direction. Returns undefined if the line has another format.
 */
export function parseFlow(line: string): Flow | undefined {
  const values: Record<string, string[]> = { src: [], dst: [], sport: [], dport: [] };
  for (const word of line.split(' ')) {
    const at = word.indexOf('=');
    if (at > 0) values[word.slice(0, at)]?.push(word.slice(at + 1));
  }
  const [src, replySrc] = values['src'] ?? [];
  const [dst] = values['dst'] ?? [];
  const [sport, replyPort] = values['sport'] ?? [];
  const [dport] = values['dport'] ?? [];
  if (
    src === undefined ||
    replySrc === undefined ||
    dst === undefined ||
    sport === undefined ||
    replyPort === undefined ||
    dport === undefined
  )
    return undefined;
  return { src, dst, sport, dport, replySrc, replyPort };
}

/**
 * Returns the UDP frontends whose conntrack entries may be stale, each with the endpoints that are still valid: frontends that were added or
 * removed, and frontends that lost an endpoint.
 * @param known the ports before the change, by key
 * @param set the added or changed ports
 * @param removed the keys of the removed ports
 */
export function changedUdpFrontends(
  known: ReadonlyMap<string, ServicePort>,
  set: readonly ServicePort[],
  removed: readonly string[],
): ReadonlyMap<string, UdpFrontend> {
  const frontends = new Map<string, UdpFrontend>();
  const open = (port: ServicePort, endpoints: ServicePort['endpoints']) => {
    const names = new Set(endpoints.map(endpointName));
    const at = (address: string | undefined, number: number) => {
      frontends.set(frontendKey(address, String(number)), { address, port: number, endpoints: names });
    };
    for (const address of [...port.clusterIPs, ...port.externalIPs, ...port.loadBalancerIPs]) at(address, port.port);
    if (port.nodePort !== undefined) at(undefined, port.nodePort);
  };
  const now = new Map(set.map((port) => [port.key, port]));
  for (const key of [...removed, ...now.keys()]) {
    const before = known.get(key);
    // removed ports first: if another Service now has the address, its endpoints are valid
    if (before?.protocol === 'UDP' && !same(before, now.get(key))) open(before, []);
  }
  for (const port of set) if (port.protocol === 'UDP' && !same(known.get(port.key), port)) open(port, port.endpoints);
  return frontends;
}

const frontendKey = (address: string | undefined, port: string) => `${address ?? ''} ${port}`;

/** Returns whether every conntrack entry that is valid for `before` is also valid for `now`. */
function same(before: ServicePort | undefined, now: ServicePort | undefined): boolean {
  const text = (port: ServicePort | undefined) =>
    port && JSON.stringify([port.protocol, port.port, port.nodePort, port.clusterIPs, port.externalIPs, port.loadBalancerIPs]);
  if (text(before) !== text(now)) return false;
  const names = new Set((now?.endpoints ?? []).map(endpointName));
  return before?.endpoints.every((endpoint) => names.has(endpointName(endpoint))) === true;
}

const deletions = 8;

/**
 * Deletes stale UDP conntrack entries: entries to removed endpoints, and untranslated entries from before a rule existed. The kernel would use
 * these entries as long as the client sends. Lists all entries once, for any number of frontends.
 * @returns false if the conntrack tool is not installed
 */
export async function deleteStaleConntrackEntries(
  frontends: ReadonlyMap<string, UdpFrontend>,
  families: readonly Family[],
): Promise<boolean> {
  for (const family of families) {
    const concerned = [...frontends.values()].some(({ address }) => address === undefined || isIPv6(address) === (family === 'ip6'));
    if (!concerned) continue;
    const stale: Flow[] = [];
    const where = ['-f', family === 'ip6' ? 'ipv6' : 'ipv4', '-p', 'udp'];
    const listed = await conntrack(['-L', ...where], (line) => {
      const flow = parseFlow(line);
      const frontend = flow && (frontends.get(frontendKey(flow.dst, flow.dport)) ?? frontends.get(frontendKey(undefined, flow.dport)));
      if (flow && frontend && !frontend.endpoints.has(endpointName({ ip: flow.replySrc, port: Number(flow.replyPort) }))) stale.push(flow);
    });
    if (!listed) return false;
    const next = stale.values();
    await Promise.all(
      Array.from({ length: deletions }, async () => {
        for (const { src, dst, sport, dport } of next)
          await conntrack(
            ['-D', ...where, '--orig-src', src, '--orig-dst', dst, '--orig-port-src', sport, '--orig-port-dst', dport],
            () => {},
          );
      }),
    );
  }
  return true;
}

/**
 * Runs the conntrack tool and calls `each` with every line of output. Ignores exit codes, because 1 means that no entry matched. Returns false
 * if the tool is not installed.
 */
async function conntrack(args: readonly string[], each: (line: string) => void): Promise<boolean> {
  const child = spawn('conntrack', args, { stdio: ['ignore', 'pipe', 'ignore'] });
  const ended = once(child, 'close').then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return false;
      throw error;
    },
  );
  createInterface({ input: child.stdout }).on('line', each);
  return ended;
}

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { isIPv6 } from 'node:net';
import { createInterface } from 'node:readline';
import type { ServicePort } from '@oarlock/spi/proxy';
import { endpointName, type Family } from './port-rules.ts';

/** Where UDP clients come to, and who may be at the other end of their flows. Without an address: a port of every address of the node. */
export interface UdpFrontend {
  readonly address: string | undefined;
  readonly port: number;
  /** `endpointName` of every endpoint. */
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

/** `udp 17 29 src=a dst=b sport=1 dport=2 src=c dst=a sport=3 dport=1 ...`: first as the client sent it, then as the answer comes. */
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

/** Where flows may have come to lead elsewhere: an address is new, it went, or an endpoint went. */
export function changedUdpFrontends(
  known: ReadonlyMap<string, ServicePort>,
  set: readonly ServicePort[],
  removed: readonly string[],
): ReadonlyMap<string, UdpFrontend> {
  const doors = new Map<string, UdpFrontend>();
  const open = (port: ServicePort, endpoints: ServicePort['endpoints']) => {
    const names = new Set(endpoints.map(endpointName));
    const at = (address: string | undefined, number: number) => {
      doors.set(frontendKey(address, String(number)), { address, port: number, endpoints: names });
    };
    for (const address of [...port.clusterIPs, ...port.externalIPs, ...port.loadBalancerIPs]) at(address, port.port);
    if (port.nodePort !== undefined) at(undefined, port.nodePort);
  };
  const now = new Map(set.map((port) => [port.key, port]));
  for (const key of [...removed, ...now.keys()]) {
    const before = known.get(key);
    // what went first: where another Service has taken the address over, its endpoints are the ones that count
    if (before?.protocol === 'UDP' && !same(before, now.get(key))) open(before, []);
  }
  for (const port of set) if (port.protocol === 'UDP' && !same(known.get(port.key), port)) open(port, port.endpoints);
  return doors;
}

const frontendKey = (address: string | undefined, port: string) => `${address ?? ''} ${port}`;

/** Whether every flow of the one is a flow of the other. */
function same(before: ServicePort | undefined, now: ServicePort | undefined): boolean {
  const text = (port: ServicePort | undefined) =>
    port && JSON.stringify([port.protocol, port.port, port.nodePort, port.clusterIPs, port.externalIPs, port.loadBalancerIPs]);
  if (text(before) !== text(now)) return false;
  const names = new Set((now?.endpoints ?? []).map(endpointName));
  return before?.endpoints.every((endpoint) => names.has(endpointName(endpoint))) === true;
}

const deletions = 8;

/**
 * Forgets UDP flows that go elsewhere than the rules now say: to endpoints that went, or nowhere, from a time when there was no rule. The kernel would
 * send datagrams there as long as the client talks. One look at all flows, however many doors there are.
 * @returns false when the conntrack tool is not here
 */
export async function deleteStaleConntrackEntries(doors: ReadonlyMap<string, UdpFrontend>, families: readonly Family[]): Promise<boolean> {
  for (const family of families) {
    const concerned = [...doors.values()].some(({ address }) => address === undefined || isIPv6(address) === (family === 'ip6'));
    if (!concerned) continue;
    const stale: Flow[] = [];
    const where = ['-f', family === 'ip6' ? 'ipv6' : 'ipv4', '-p', 'udp'];
    const listed = await conntrack(['-L', ...where], (line) => {
      const flow = parseFlow(line);
      const door = flow && (doors.get(frontendKey(flow.dst, flow.dport)) ?? doors.get(frontendKey(undefined, flow.dport)));
      if (flow && door && !door.endpoints.has(endpointName({ ip: flow.replySrc, port: Number(flow.replyPort) }))) stale.push(flow);
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

/** Exit codes are not looked at: 1 says that there was no such flow. False when there is no such program. */
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

import { isIPv6 } from 'node:net';
import { execa } from 'execa';
import { NftError } from './nft.ts';

const timeoutMs = 30_000;
const maxOutput = 16 << 20;

/** Where UDP clients come to, and who may be at the other end of their flows. Without an address: a port of every address of the node. */
export interface UdpDoor {
  readonly address: string | undefined;
  readonly port: number;
  /** `ip port` of every endpoint. */
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

async function conntrack(args: readonly string[]): Promise<string> {
  const { code, stdout, exitCode, stderr } = await execa('conntrack', args, { reject: false, timeout: timeoutMs, maxBuffer: maxOutput });
  if (code === 'ENOENT') throw new NftError('NotInstalled', 'conntrack is not installed');
  // exit code 1 with nothing on stdout: there was no such flow
  if (exitCode !== 0 && exitCode !== 1) throw new NftError('Refused', `conntrack ${args[0]} failed: ${String(stderr).split('\n')[0]}`);
  return stdout;
}

/** `udp 17 29 src=a dst=b sport=1 dport=2 src=c dst=a sport=3 dport=1 ...`: first as the client sent it, then as the answer comes. */
export function parseFlow(line: string): Flow | undefined {
  const values = (key: string) => [...line.matchAll(new RegExp(`\\b${key}=(\\S+)`, 'g'))].map((match) => match[1] ?? '');
  const [src, replySrc] = values('src');
  const [dst] = values('dst');
  const [sport, replyPort] = values('sport');
  const [dport] = values('dport');
  return src === undefined ||
    replySrc === undefined ||
    dst === undefined ||
    sport === undefined ||
    replyPort === undefined ||
    dport === undefined
    ? undefined
    : { src, dst, sport, dport, replySrc, replyPort };
}

/**
 * Forgets UDP flows that go elsewhere than the rules now say: to endpoints that went, or nowhere, from a time when there was no rule. The kernel would
 * send datagrams there as long as the client talks.
 * @throws NftError `NotInstalled` without the conntrack tool
 */
export async function forgetStaleFlows(doors: readonly UdpDoor[], families: readonly ('ip' | 'ip6')[]): Promise<void> {
  for (const { address, port, endpoints } of doors) {
    for (const family of address === undefined ? families : [isIPv6(address) ? ('ip6' as const) : ('ip' as const)]) {
      const where = ['-f', family === 'ip6' ? 'ipv6' : 'ipv4', '-p', 'udp'];
      const listed = await conntrack([
        '-L',
        ...where,
        ...(address === undefined ? [] : ['--orig-dst', address]),
        '--orig-port-dst',
        String(port),
      ]);
      for (const line of listed.split('\n')) {
        const flow = parseFlow(line);
        if (flow === undefined || endpoints.has(`${flow.replySrc} ${flow.replyPort}`)) continue;
        await conntrack([
          '-D',
          ...where,
          '--orig-src',
          flow.src,
          '--orig-dst',
          flow.dst,
          '--orig-port-src',
          flow.sport,
          '--orig-port-dst',
          flow.dport,
        ]);
      }
    }
  }
}

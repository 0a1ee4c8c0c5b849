import { isIP } from 'node:net';
import { namespaces, networkPolicies, pods } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Namespace, Pod } from '@oarlock/api/types/core-v1';
import type { NetworkPolicy } from '@oarlock/api/types/networking-v1';
import { explainTraffic, type TrafficEnd, type TrafficVerdict } from '@oarlock/network-policy/explain-traffic';
import { peerPod, type Protocol } from '@oarlock/network-policy/peer-pod';
import { policyRules } from '@oarlock/network-policy/policy-rules';
import type { Client } from '@oarlock/spi/client';
import { adminAccess } from './admin-access.ts';
import { CommandError, exitCodes } from './exit.ts';

export interface ExplainTrafficOptions {
  readonly dataDir: string;
  readonly namespace: string;
  readonly output: string;
}

const protocols: readonly string[] = ['TCP', 'UDP', 'SCTP'];

/** `80`, `80/udp`, or a name that a container of the pod that is reached has for it. @throws CommandError */
function doorOf(text: string, to: TrafficEnd): { readonly port: number; readonly protocol: Protocol } {
  const [what = '', protocolText = 'tcp'] = text.split('/');
  const protocol = protocolText.toUpperCase();
  if (!protocols.includes(protocol))
    throw new CommandError(`${JSON.stringify(text)}: the protocol is tcp, udp or sctp, not ${protocolText}`, exitCodes.usage);
  const port = /^\d+$/.test(what) ? Number(what) : to.pod?.ports.find((own) => own.name === what && own.protocol === protocol)?.port;
  if (port === undefined || port < 1 || port > 65_535)
    throw new CommandError(
      `${JSON.stringify(text)}: name a port from 1 to 65535, or one that a container of ${to.ip} has a name for`,
      exitCodes.usage,
    );
  return { port, protocol: protocol as Protocol };
}

/** A pod by `name` or `namespace/name`, or an address. @throws CommandError */
async function endOf(client: Client, text: string, namespace: string): Promise<TrafficEnd> {
  if (isIP(text) !== 0) {
    const owner = (await client.list<Pod>(pods)).items.map(peerPod).find((pod) => pod?.ips.includes(text));
    return owner === undefined ? { ip: text } : { ip: text, pod: owner };
  }
  const at = text.split('/');
  const [of, name = ''] = at.length > 1 ? at : [namespace, text];
  let pod: Pod;
  try {
    pod = await client.get(pods, { namespace: of ?? '', name });
  } catch (error) {
    if (isStatus(error, 'NotFound'))
      throw new CommandError(`there is no pod ${of}/${name}: name a pod as NAME or NAMESPACE/NAME, or an address`);
    throw error;
  }
  const peer = peerPod(pod);
  const [ip] = peer?.ips ?? [];
  if (peer !== undefined && ip !== undefined) return { ip, pod: peer };
  if (pod.spec?.hostNetwork === true && pod.status?.hostIP !== undefined) return { ip: pod.status.hostIP };
  throw new CommandError(`the pod ${of}/${name} has no address: it ${pod.status?.phase === 'Pending' ? 'has not begun' : 'is over'}`);
}

/** Prints which policies decide whether one end may reach another, and by which rule. Exit code 1 when they forbid it. */
export async function explainTrafficBetween(from: string, to: string, port: string, options: ExplainTrafficOptions): Promise<void> {
  if (options.output !== 'text' && options.output !== 'json')
    throw new CommandError(`there is no output ${JSON.stringify(options.output)}: text or json`, exitCodes.usage);
  const { client, close } = await adminAccess(options.dataDir);
  try {
    const [source, target] = await Promise.all([endOf(client, from, options.namespace), endOf(client, to, options.namespace)]);
    const [policies, spaces] = await Promise.all([client.list<NetworkPolicy>(networkPolicies), client.list<Namespace>(namespaces)]);
    const labels = new Map(spaces.items.map(({ metadata = {} }) => [metadata.name ?? '', metadata.labels ?? {}]));
    // the same pod twice is one pod
    const reached = source.pod !== undefined && source.ip === target.ip ? { ...target, pod: source.pod } : target;
    const traffic = { from: source, to: reached, ...doorOf(port, target) };
    const verdicts = explainTraffic(traffic, policies.items.map(policyRules), labels);
    const allowed = verdicts.every((verdict) => verdict.allowed);
    if (options.output === 'json') console.log(JSON.stringify({ allowed, verdicts }, null, 2));
    else {
      console.log(`${nameOf(source)} -> ${nameOf(target)} ${traffic.protocol} ${traffic.port}: ${allowed ? 'allowed' : 'denied'}`);
      for (const verdict of verdicts) console.log(`  ${lineOf(verdict, verdict.direction === 'egress' ? source : target)}`);
    }
    if (!allowed) process.exitCode = exitCodes.failed;
  } finally {
    await close();
  }
}

const nameOf = ({ ip, pod }: TrafficEnd) => (pod === undefined ? ip : `${pod.namespace}/${pod.name} (${ip})`);

function lineOf({ direction, allowed, isolatedBy, allowedBy }: TrafficVerdict, { pod }: TrafficEnd): string {
  const begin = `${direction.padEnd(7)} `;
  if (isolatedBy.length === 0) return `${begin}open: ${pod === undefined ? 'not a pod' : 'no policy selects the pod'}`;
  const rules = allowedBy.map(({ policy, rule }) => `${policy} spec.${direction}[${rule}]`);
  return allowed ? `${begin}allowed by ${rules.join(', ')}` : `${begin}denied: no rule of ${isolatedBy.join(', ')} lets it through`;
}

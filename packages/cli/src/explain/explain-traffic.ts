import { isIP } from 'node:net';
import { namespaces, networkPolicies, pods } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Namespace, Pod } from '@oarlock/api/types/core-v1';
import type { NetworkPolicy } from '@oarlock/api/types/networking-v1';
import { explainTraffic, type TrafficEnd, type TrafficDecision } from '@oarlock/network-policy/explain-traffic';
import { peerPod, type Protocol } from '@oarlock/network-policy/peer-pod';
import { policyRules } from '@oarlock/network-policy/policy-rules';
import { parseTrafficPort, portNumberOf, type TrafficPort } from '@oarlock/network-policy/traffic-port';
import { errorText } from '@oarlock/primitives/error-text';
import type { Client } from '@oarlock/spi/client';
import { withCluster } from '../common/cluster-access.ts';
import { CommandError, exitCodes } from '../common/command-error.ts';
import { printFacts, type OutputFormat } from '../common/output.ts';

export interface ExplainTrafficOptions {
  readonly dataDir: string;
  readonly namespace: string;
  readonly output: OutputFormat;
  readonly timeout: number;
}

/** Resolves `80`, `80/udp`, or the name of a container port of the destination. @throws CommandError if the destination has no such port */
function destinationPort(text: string, to: TrafficEnd): { readonly port: number; readonly protocol: Protocol } {
  let parsed: TrafficPort;
  try {
    parsed = parseTrafficPort(text);
  } catch (cause) {
    throw new CommandError(errorText(cause), exitCodes.usage, { cause });
  }
  const port = portNumberOf(parsed, to.pod);
  if (port === undefined)
    throw new CommandError(
      `${JSON.stringify(text)}: the port must be a number from 1 to 65535 or the name of a container port of ${to.ip}`,
      exitCodes.usage,
    );
  return { port, protocol: parsed.protocol };
}

/** Resolves a pod given as `name` or `namespace/name`, or an IP address. @throws CommandError if the pod does not exist or has no address */
async function trafficEnd(client: Client, text: string, namespace: string): Promise<TrafficEnd> {
  if (isIP(text) !== 0) {
    const owner = (await client.list<Pod>(pods)).items.map(peerPod).find((pod) => pod?.ips.includes(text));
    return owner === undefined ? { ip: text } : { ip: text, pod: owner };
  }
  const parts = text.split('/');
  const [podNamespace = '', name = ''] = parts.length > 1 ? parts : [namespace, text];
  let pod: Pod;
  try {
    pod = await client.get(pods, { namespace: podNamespace, name });
  } catch (error) {
    if (isStatus(error, 'NotFound'))
      throw new CommandError(`pod ${podNamespace}/${name} not found: give a pod as NAME or NAMESPACE/NAME, or an IP address`);
    throw error;
  }
  const peer = peerPod(pod);
  const [ip] = peer?.ips ?? [];
  if (peer !== undefined && ip !== undefined) return { ip, pod: peer };
  if (pod.spec?.hostNetwork === true && pod.status?.hostIP !== undefined) return { ip: pod.status.hostIP };
  const reason = pod.status?.phase === 'Pending' ? 'it has not started yet' : 'it has terminated';
  throw new CommandError(`pod ${podNamespace}/${name} has no IP address: ${reason}`);
}

/** The destination of the traffic, and how to read the policies. */
export interface TrafficDestination {
  readonly to: string;
  readonly port: string;
}

/** Prints the NetworkPolicies that allow or deny traffic, with the rule. Sets exit code 1 if the traffic is denied. */
export async function explainTrafficBetween(from: string, { to, port }: TrafficDestination, options: ExplainTrafficOptions): Promise<void> {
  await withCluster(options, async ({ client }) => {
    const [source, target] = await Promise.all([trafficEnd(client, from, options.namespace), trafficEnd(client, to, options.namespace)]);
    const [policies, namespaceList] = await Promise.all([client.list<NetworkPolicy>(networkPolicies), client.list<Namespace>(namespaces)]);
    const labels = new Map(namespaceList.items.map(({ metadata = {} }) => [metadata.name ?? '', metadata.labels ?? {}]));
    // explainTraffic recognizes a pod that connects to itself by identity
    const destination = source.pod !== undefined && source.ip === target.ip ? { ...target, pod: source.pod } : target;
    const traffic = { from: source, to: destination, ...destinationPort(port, target) };
    const decisions = explainTraffic(traffic, policies.items.map(policyRules), labels);
    const allowed = decisions.every((decision) => decision.allowed);
    await printFacts(options.output, { allowed, verdicts: decisions }, () =>
      [
        `${nameOf(source)} -> ${nameOf(target)} ${traffic.protocol} ${traffic.port}: ${allowed ? 'allowed' : 'denied'}`,
        ...decisions.map((decision) => `  ${lineOf(decision, decision.direction === 'egress' ? source : target)}`),
      ].join('\n'),
    );
    if (!allowed) process.exitCode = exitCodes.failed;
  });
}

const nameOf = ({ ip, pod }: TrafficEnd) => (pod === undefined ? ip : `${pod.namespace}/${pod.name} (${ip})`);

function lineOf({ direction, allowed, isolatedBy, allowedBy }: TrafficDecision, { pod }: TrafficEnd): string {
  const prefix = `${direction.padEnd(7)} `;
  if (isolatedBy.length === 0) return `${prefix}open: ${pod === undefined ? 'not a pod' : 'no policy selects the pod'}`;
  const rules = allowedBy.map(({ policy, rule }) => `${policy} spec.${direction}[${rule}]`);
  return allowed ? `${prefix}allowed by ${rules.join(', ')}` : `${prefix}denied: no rule of ${isolatedBy.join(', ')} allows it`;
}

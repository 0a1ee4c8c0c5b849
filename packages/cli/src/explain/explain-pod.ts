import { readFile } from 'node:fs/promises';
import type { KubeObject } from '@oarlock/api/object';
import { pods } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Pod, PodTemplateSpec } from '@oarlock/api/types/core-v1';
import type { RemoteAccess } from '@oarlock/cluster/remote-access';
import { parseAllDocuments } from 'yaml';
import { withCluster } from '../common/cluster-access.ts';
import { CommandError, exitCodes } from '../common/command-error.ts';
import { printFacts, type OutputFormat } from '../common/output.ts';

export interface ExplainOptions {
  readonly dataDir: string;
  readonly kubeconfig?: string;
  readonly namespace: string;
  readonly whatIf: boolean;
  readonly file?: string;
  readonly output: OutputFormat;
  readonly timeout: number;
}

/** The response of `POST /oarlock/v1/scheduling`. */
interface ExplainResponse {
  readonly pods: readonly PodExplanation[];
}
export interface PodExplanation {
  readonly namespace: string;
  readonly name: string;
  readonly bound?: string;
  readonly chosen?: string;
  readonly message?: string;
  readonly nodes: readonly {
    readonly node: string;
    readonly rejectedBy?: string;
    readonly reasons?: readonly string[];
    readonly score?: number;
    readonly scores?: Readonly<Record<string, number>>;
  }[];
}

const path = '/oarlock/v1/scheduling';
const maxPods = 1000;

/**
 * Prints for each node why a pod cannot run on the node, or the score of the node. Explains an existing pod, or the pods that a manifest would
 * create. Sets exit code 1 if a pod fits no node.
 */
export async function explainPod(name: string | undefined, options: ExplainOptions): Promise<void> {
  const answer = await withCluster(options, async (access) => {
    const question = options.whatIf ? { pods: await podsFromFile(access, options) } : { namespace: options.namespace, name: podName(name) };
    return requestExplanation(access, question);
  });
  await printFacts(options.output, answer, (facts) => facts.pods.map(textOf).join('\n'));
  if (answer.pods.some(({ chosen, bound }) => chosen === undefined && bound === undefined)) process.exitCode = exitCodes.failed;
}

async function requestExplanation({ client, server }: RemoteAccess, question: object): Promise<ExplainResponse> {
  try {
    return (await client.raw('POST', path, question)) as ExplainResponse;
  } catch (cause) {
    // for a missing pod the scheduler answers with Kubernetes' own message
    if (isStatus(cause, 'NotFound') && !cause.message.startsWith('pods '))
      throw new CommandError(`${server} cannot explain scheduling: its process does not run the Oarlock scheduler`, exitCodes.failed, {
        cause,
      });
    throw cause;
  }
}

function podName(name: string | undefined): string {
  if (name === undefined || name === '')
    throw new CommandError('a pod name is required; for pods that do not exist yet use --what-if -f FILE', exitCodes.usage);
  return name;
}

async function podsFromFile({ client }: RemoteAccess, { file, namespace }: ExplainOptions): Promise<readonly Pod[]> {
  if (file === undefined) throw new CommandError('--what-if requires a manifest: -f FILE', exitCodes.usage);
  const planned = plannedPods(await readFile(file, 'utf8'), namespace);
  if (planned.length === 0) throw new CommandError(`${file} creates no pods`, exitCodes.usage);
  if (planned.length > maxPods) throw new CommandError(`${file} creates more than ${maxPods} pods`, exitCodes.usage);
  const admitted: Pod[] = [];
  // a dry run adds what admission adds: priority, tolerations, defaults
  for (const pod of planned) admitted.push(await client.create(pods, pod, { dryRun: true }));
  return admitted;
}

interface Workload extends KubeObject {
  readonly spec?: { readonly replicas?: number; readonly parallelism?: number; readonly template?: PodTemplateSpec };
}

/** Returns the pods in a manifest and those that its workloads would create. */
export function plannedPods(text: string, namespace: string): readonly Pod[] {
  return parseAllDocuments(text).flatMap((document) => {
    const [fault] = document.errors;
    if (fault !== undefined) throw new CommandError(fault.message, exitCodes.usage);
    const object = document.toJS({ maxAliasCount: 100 }) as
      | Workload
      | { readonly kind: 'List'; readonly items?: readonly Workload[] }
      | null;
    if (object === null) return [];
    const objects = object.kind === 'List' && 'items' in object ? (object.items ?? []) : [object as Workload];
    return objects.flatMap((each) => podsOf(each, namespace));
  });
}

function podsOf({ kind, metadata = {}, spec = {} }: Workload, fallback: string): readonly Pod[] {
  const namespace = metadata.namespace ?? fallback;
  const name = metadata.name ?? metadata.generateName ?? 'pod';
  if (kind === 'Pod')
    return [{ apiVersion: 'v1', kind: 'Pod', metadata: { ...metadata, namespace, name }, spec: spec as NonNullable<Pod['spec']> }];
  const { template, replicas, parallelism } = spec;
  if (template?.spec === undefined) return [];
  const { spec: podSpec } = template;
  return Array.from({ length: Math.min(replicas ?? parallelism ?? 1, maxPods + 1) }, (_, index) => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { ...template.metadata, namespace, name: `${name}-${index}` },
    spec: podSpec,
  }));
}

/** Formats feasible nodes with their scores, best first, then infeasible nodes with the plugin that rejected the pod. */
export function textOf({ namespace, name, bound, chosen, message, nodes }: PodExplanation): string {
  const head = `pod ${namespace}/${name}: ${
    bound !== undefined ? `is on ${bound}` : chosen === undefined ? (message ?? 'would not be scheduled') : `would go to ${chosen}`
  }`;
  const rows = nodes.map(({ node, rejectedBy, reasons = [], score, scores = {} }) =>
    rejectedBy === undefined
      ? [
          node,
          String(Math.round(score ?? 0)),
          Object.entries(scores)
            .map(([plugin, part]) => `${plugin} ${Math.round(part)}`)
            .join(', '),
        ]
      : [node, 'no', `${rejectedBy}: ${reasons.join(', ')}`],
  );
  const table = [['NODE', 'SCORE', 'BECAUSE'], ...rows];
  const widths = [0, 1].map((column) => Math.max(...table.map((row) => row[column]?.length ?? 0)));
  const lines = table.map(([node = '', score = '', because = '']) =>
    `  ${node.padEnd(widths[0] ?? 0)}  ${score.padEnd(widths[1] ?? 0)}  ${because}`.trimEnd(),
  );
  return [head, ...lines, ''].join('\n');
}

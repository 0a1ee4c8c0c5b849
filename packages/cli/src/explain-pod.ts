import { readFile } from 'node:fs/promises';
import type { KubeObject } from '@oarlock/api/object';
import { pods } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { Pod, PodTemplateSpec } from '@oarlock/api/types/core-v1';
import { remoteAccess, type RemoteAccess } from '@oarlock/cluster/remote';
import { parseAllDocuments } from 'yaml';
import { adminAccess } from './admin-access.ts';
import { CommandError, exitCodes } from './exit.ts';

export interface ExplainOptions {
  readonly dataDir: string;
  readonly kubeconfig?: string;
  readonly namespace: string;
  readonly whatIf: boolean;
  readonly file?: string;
  readonly output: string;
}

/** The answer of `POST /oarlock/v1/scheduling`. */
interface Answer {
  readonly pods: readonly Explained[];
}
export interface Explained {
  readonly namespace: string;
  readonly name: string;
  readonly bound?: string;
  readonly chosen?: string;
  readonly message?: string;
  readonly nodes: readonly {
    readonly node: string;
    readonly refusedBy?: string;
    readonly reasons?: readonly string[];
    readonly score?: number;
    readonly scores?: Readonly<Record<string, number>>;
  }[];
}

const path = '/oarlock/v1/scheduling';
const mostPods = 1000;

/** Says for each node why a pod is not there, or how good it would be; for a pod that there is, or for those that a manifest would make. */
export async function explainPod(name: string | undefined, options: ExplainOptions): Promise<void> {
  if (options.output !== 'text' && options.output !== 'json') throw new CommandError('--output is text or json', exitCodes.usage);
  const access = options.kubeconfig === undefined ? await adminAccess(options.dataDir) : await remoteAccess(options.kubeconfig);
  try {
    const question = options.whatIf ? { pods: await podsToBe(access, options) } : { namespace: options.namespace, name: podName(name) };
    const answer = await ask(access, question);
    console.log(options.output === 'json' ? JSON.stringify(answer, null, 2) : answer.pods.map(textOf).join('\n'));
    if (answer.pods.some(({ chosen, bound }) => chosen === undefined && bound === undefined)) process.exitCode = exitCodes.failed;
  } finally {
    access.close();
  }
}

async function ask({ client, server }: RemoteAccess, question: object): Promise<Answer> {
  try {
    return (await client.raw('POST', path, question)) as Answer;
  } catch (cause) {
    // of a pod that there is not, the scheduler says so itself
    if (isStatus(cause, 'NotFound') && !cause.message.startsWith('pods '))
      throw new CommandError(`${server} cannot be asked: its process runs no Oarlock scheduler`, exitCodes.failed, { cause });
    throw cause;
  }
}

function podName(name: string | undefined): string {
  if (name === undefined || name === '')
    throw new CommandError('name a pod, or use --what-if -f FILE for pods that there are not', exitCodes.usage);
  return name;
}

async function podsToBe({ client }: RemoteAccess, { file, namespace }: ExplainOptions): Promise<readonly Pod[]> {
  if (file === undefined) throw new CommandError('--what-if needs a manifest: -f FILE', exitCodes.usage);
  const planned = plannedPods(await readFile(file, 'utf8'), namespace);
  if (planned.length === 0) throw new CommandError(`${file} makes no pods`, exitCodes.usage);
  if (planned.length > mostPods) throw new CommandError(`${file} makes more than ${mostPods} pods`, exitCodes.usage);
  const made: Pod[] = [];
  // as the server would have them: with their priority, tolerations and all that admission adds
  for (const pod of planned) made.push(await client.create(pods, pod, { dryRun: true }));
  return made;
}

interface Workload extends KubeObject {
  readonly spec?: { readonly replicas?: number; readonly parallelism?: number; readonly template?: PodTemplateSpec };
}

/** The pods that the objects of a manifest are or would make. */
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
  return Array.from({ length: Math.min(replicas ?? parallelism ?? 1, mostPods + 1) }, (_, index) => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { ...template.metadata, namespace, name: `${name}-${index}` },
    spec: podSpec,
  }));
}

/** The nodes that would do with their scores, best first, then those that would not with who says so. */
export function textOf({ namespace, name, bound, chosen, message, nodes }: Explained): string {
  const head = `pod ${namespace}/${name}: ${
    bound !== undefined ? `is on ${bound}` : chosen === undefined ? (message ?? 'would not be scheduled') : `would go to ${chosen}`
  }`;
  const rows = nodes.map(({ node, refusedBy, reasons = [], score, scores = {} }) =>
    refusedBy === undefined
      ? [
          node,
          String(Math.round(score ?? 0)),
          Object.entries(scores)
            .map(([plugin, part]) => `${plugin} ${Math.round(part)}`)
            .join(', '),
        ]
      : [node, 'no', `${refusedBy}: ${reasons.join(', ')}`],
  );
  const table = [['NODE', 'SCORE', 'BECAUSE'], ...rows];
  const widths = [0, 1].map((column) => Math.max(...table.map((row) => row[column]?.length ?? 0)));
  const lines = table.map(([node = '', score = '', because = '']) =>
    `  ${node.padEnd(widths[0] ?? 0)}  ${score.padEnd(widths[1] ?? 0)}  ${because}`.trimEnd(),
  );
  return [head, ...lines, ''].join('\n');
}

import { kinds, type Kind } from '@oarlock/api/kinds';
import { buildTrees, failedPaths, renderTrees } from '@oarlock/tracing/trace-tree';
import type { RecordedSpan } from '@oarlock/spi/spans';
import { withCluster } from '../common/cluster-access.ts';
import { CommandError, exitCodes } from '../common/command-error.ts';
import { printFacts, type OutputFormat } from '../common/output.ts';

interface TraceOptions {
  readonly dataDir: string;
  readonly namespace: string;
  readonly failed: boolean;
  readonly output: OutputFormat;
  readonly timeout: number;
}

/** Parses an object as kubectl does: `deployment/hello`, `deploy/hello`, `pods/a`, `deployments.apps/hello`. */
function objectName(text: string, namespace: string): string {
  const [type = '', name = ''] = text.split('/');
  const [plain = '', ...group] = type.toLowerCase().split('.');
  const names = (kind: Kind) => [kind.resource, kind.singular, kind.kind.toLowerCase(), ...kind.shortNames];
  const kind = kinds.find((candidate) => names(candidate).includes(plain) && (group.length === 0 || candidate.group === group.join('.')));
  if (kind === undefined || name === '')
    throw new CommandError(`${text} is not a known object: give it as TYPE/NAME, such as deployment/hello`, exitCodes.usage);
  const resource = kind.group === '' ? kind.resource : `${kind.resource}.${kind.group}`;
  return kind.namespaced ? `${resource}/${namespace}/${name}` : `${resource}/${name}`;
}

/** Prints the recorded steps between a write to an object and its effects. */
export async function trace(object: string | undefined, options: TraceOptions): Promise<void> {
  if (object === undefined) throw new CommandError('an object is required, such as deployment/hello', exitCodes.usage);
  const name = objectName(object, options.namespace);
  const path = `/oarlock/v1/traces?object=${encodeURIComponent(name)}${options.failed ? '&all=1' : ''}`;
  const { spans: recorded } = (await withCluster(options, ({ client }) => client.raw('GET', path))) as {
    readonly spans: readonly RecordedSpan[];
  };
  if (recorded.length === 0) throw new CommandError(`no trace of ${name} is recorded: it has not changed recently, or tracing is disabled`);
  await printFacts(options.output, recorded, (spans) => (options.failed ? failuresText(name, spans) : renderTrees(buildTrees(spans))));
}

function failuresText(name: string, spans: readonly RecordedSpan[]): string {
  const key = name.slice(name.indexOf('/') + 1);
  const about = (span: RecordedSpan) => span.attributes['oarlock.object'] === name || span.attributes['oarlock.key'] === key;
  const paths = failedPaths(buildTrees(spans)).filter((path) => path.some(about));
  if (paths.length === 0) return `no failed step of ${name} is recorded`;
  const latest = paths.toSorted((a, b) => (a.at(-1)?.start ?? 0) - (b.at(-1)?.start ?? 0)).at(-1) ?? [];
  return [
    ...latest.map(
      ({ name: step, error }, depth) =>
        `${'  '.repeat(depth)}${error === undefined ? '✔' : '✖'} ${step}${error === undefined ? '' : `: ${error}`}`,
    ),
    '',
    `${paths.length} failed step${paths.length === 1 ? '' : 's'} of ${name} recorded; this is the latest, at ${new Date(latest.at(-1)?.start ?? 0).toISOString()}.`,
  ].join('\n');
}

import { formatPath, type Difference } from '@oarlock/primitives/json-diff';
import { printable } from '@oarlock/primitives/printable-text';
import type { SpanContext } from '@oarlock/kernel/tracing';
import type { RecordedSpan } from '@oarlock/spi/spans';
import type { PluginCall } from './observe-plugins.ts';
import type { Colors } from './terminal-colors.ts';

const maxOpen = 10_000; // requests in flight
const maxDifferences = 32; // differences shown for one plugin
const maxValueLength = 100; // characters of a value

export interface RequestLogOptions {
  readonly paint: Colors;
  print(text: string): void;
  /** Names of the plugins under development: their calls and times are shown for every request. */
  readonly own: ReadonlySet<string>;
  /** Also show requests of the cluster's own components in which no plugin under development took part. */
  readonly all: boolean;
}

/** Prints, for each completed write request, the effect of every plugin on the request. */
export class RequestLog {
  readonly #options: RequestLogOptions;
  readonly #steps = new Map<string, PluginCall[]>();
  /** Results that were already shown for cluster components, which repeat their requests. */
  readonly #repeated = new Set<string>();
  #open = false;
  readonly #authorized = new Map<string, { readonly plugin: string; readonly decision: string; readonly ms: number }>();

  constructor(options: RequestLogOptions) {
    this.#options = options;
  }

  /** Shows repeated requests of cluster components again, because the cluster became ready or a plugin changed. */
  renew(): void {
    this.#open = true;
    this.#repeated.clear();
  }

  step(spanContext: SpanContext | undefined, step: PluginCall): void {
    if (spanContext === undefined) return;
    const known = this.#steps.get(spanContext.spanId);
    if (known !== undefined) known.push(step);
    else {
      bound(this.#steps);
      this.#steps.set(spanContext.spanId, [step]);
    }
  }

  span(span: RecordedSpan): void {
    const { name, parentId, spanId, start, end, attributes } = span;
    if (name === 'authorization' && parentId !== undefined) {
      bound(this.#authorized);
      const { 'oarlock.plugin': plugin = '', 'oarlock.decision': decision = '' } = attributes;
      this.#authorized.set(parentId, { plugin: String(plugin), decision: String(decision), ms: end - start });
    }
    if (attributes['oarlock.verb'] === undefined || attributes['oarlock.user'] === undefined) return;
    const steps = this.#steps.get(spanId) ?? [];
    const authorized = this.#authorized.get(spanId);
    this.#steps.delete(spanId);
    this.#authorized.delete(spanId);
    this.#report(span, steps, authorized);
  }

  #report(
    { name, start, end, attributes, error }: RecordedSpan,
    steps: readonly PluginCall[],
    authorized: { plugin: string; decision: string; ms: number } | undefined,
  ): void {
    const { paint, own, all, print } = this.#options;
    const user = String(attributes['oarlock.user']);
    const mine = steps.some((step) => own.has(step.plugin) && isNoteworthy(step));
    const byOwnAuthorizer = authorized !== undefined && authorized.decision !== 'allow' && own.has(authorized.plugin);
    const system = user.startsWith('system:') && !user.startsWith('system:serviceaccount:default:');
    if (!all && system && !((mine || byOwnAuthorizer) && this.#open)) return;
    const repeats = JSON.stringify([name, user, steps.map(({ plugin, rejected, failed }) => [plugin, rejected, failed])]);
    if (!all && system && this.#repeated.has(repeats)) return;
    if (this.#repeated.size < maxOpen) this.#repeated.add(repeats);
    const code = Number(attributes['http.response.status_code'] ?? 0);
    const object = String(attributes['oarlock.object'] ?? '').replace(/^[^/]*\/?/, '');
    const outcome = code >= 400 ? paint.red(String(code)) : paint.green(String(code));
    const head = [
      paint.dim(clockTime(start)),
      outcome,
      paint.bold(printable(name)),
      printable(object),
      paint.dim(`by ${printable(user)}, ${ms(end - start)}`),
    ];
    const lines = [head.filter((part) => part !== '').join(' ')];
    if (authorized !== undefined && (authorized.decision !== 'allow' || own.has(authorized.plugin))) {
      const decision = authorized.plugin === '' ? 'no authorizer allows it' : `${authorized.plugin} decides ${authorized.decision}`;
      lines.push(`    ${authorized.decision === 'allow' ? decision : paint.red(decision)} ${paint.dim(ms(authorized.ms))}`);
    }
    const quiet = steps.filter((step) => !own.has(step.plugin) && !isNoteworthy(step));
    for (const step of steps) if (!quiet.includes(step)) lines.push(...stepLines(step, this.#options));
    if (quiet.length > 0) {
      const others = new Set(quiet.map(({ plugin }) => plugin)).size;
      lines.push(
        paint.dim(`    ${others} other${others === 1 ? '' : 's'} changed nothing ${ms(quiet.reduce((sum, step) => sum + step.ms, 0))}`),
      );
    }
    const reported = steps.some(({ rejected, failed }) => rejected !== undefined || failed !== undefined);
    if (error !== undefined && !reported) lines.push(`    ${paint.red(error)}`);
    print(lines.join('\n'));
  }
}

/** Returns the lines that show one call of a plugin: its result, changes and warnings. */
export function stepLines(
  { plugin, phase, ms: duration, changes, warnings, rejected, failed }: PluginCall,
  { paint, own }: Pick<RequestLogOptions, 'paint' | 'own'>,
): string[] {
  const name = own.has(plugin) ? paint.cyan(plugin) : plugin;
  const result =
    rejected !== undefined
      ? paint.red(`denies: ${rejected}`)
      : failed !== undefined
        ? paint.red(`fails: ${failed}`)
        : changes.length > 0
          ? `changes ${changes.length}`
          : 'admits';
  const lines = [`    ${name} ${paint.dim(phase)} ${result} ${paint.dim(ms(duration))}`];
  for (const change of changes.slice(0, maxDifferences)) lines.push(`      ${differenceLine(change, paint)}`);
  if (changes.length > maxDifferences) lines.push(paint.dim(`      and ${changes.length - maxDifferences} more`));
  for (const warning of warnings) lines.push(`      ${paint.yellow(`warns: ${warning}`)}`);
  return lines;
}

const isNoteworthy = ({ changes, warnings, rejected, failed }: PluginCall): boolean =>
  changes.length > 0 || warnings.length > 0 || rejected !== undefined || failed !== undefined;

/** Formats a difference: `+ metadata.labels.owner "ada"`, `~ spec.replicas 1 -> 3`, `- metadata.annotations.old "x"`. */
export function differenceLine({ path, before, after }: Difference, paint: Colors): string {
  const where = formatPath(path);
  if (before === undefined) return paint.green(`+ ${where} ${valueText(after)}`);
  if (after === undefined) return paint.red(`- ${where} ${valueText(before)}`);
  return `${paint.yellow(`~ ${where}`)} ${paint.red(valueText(before))} -> ${paint.green(valueText(after))}`;
}

function valueText(value: unknown): string {
  const text = JSON.stringify(value) ?? 'nothing';
  return text.length > maxValueLength ? `${text.slice(0, maxValueLength - 3)}...` : text;
}

const ms = (duration: number): string => (duration < 10 ? `${duration.toFixed(2)} ms` : `${Math.round(duration)} ms`);
const clockTime = (at: number): string => new Date(at).toTimeString().slice(0, 8);

function bound(map: Map<string, unknown>): void {
  const [oldest] = map.size >= maxOpen ? map.keys() : [];
  if (oldest !== undefined) map.delete(oldest);
}

import { pathText, type Difference } from '@oarlock/kernel/differences';
import type { Cause } from '@oarlock/kernel/tracing';
import type { RecordedSpan } from '@oarlock/spi/spans';
import type { Step } from './observed.ts';
import type { Paint } from './paint.ts';

const maxOpen = 10_000; // requests under way
const maxShown = 32; // differences of one plugin
const widest = 100; // characters of a value

export interface RequestLogOptions {
  readonly paint: Paint;
  print(text: string): void;
  /** Plugins that are being written: what they do is shown for every request, and their times always. */
  readonly own: ReadonlySet<string>;
  /** Also what the cluster's own parts write, where no plugin of one's own is concerned. */
  readonly all: boolean;
}

/** Says of each write what every plugin made of it, when it has been answered. */
export class RequestLog {
  readonly #options: RequestLogOptions;
  readonly #steps = new Map<string, Step[]>();
  /** What the cluster's own parts were told already: they ask again and again. */
  readonly #repeated = new Set<string>();
  #open = false;
  readonly #authorized = new Map<string, { readonly plugin: string; readonly decision: string; readonly ms: number }>();

  constructor(options: RequestLogOptions) {
    this.#options = options;
  }

  /** From here on what the cluster's own parts do is of interest, each time anew: it runs, or a plugin has changed. */
  renew(): void {
    this.#open = true;
    this.#repeated.clear();
  }

  step(cause: Cause | undefined, step: Step): void {
    if (cause === undefined) return;
    const known = this.#steps.get(cause.spanId);
    if (known !== undefined) known.push(step);
    else {
      bound(this.#steps);
      this.#steps.set(cause.spanId, [step]);
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
    this.#tell(span, steps, authorized);
  }

  #tell(
    { name, start, end, attributes, error }: RecordedSpan,
    steps: readonly Step[],
    authorized: { plugin: string; decision: string; ms: number } | undefined,
  ): void {
    const { paint, own, all, print } = this.#options;
    const user = String(attributes['oarlock.user']);
    const mine = steps.some((step) => own.has(step.plugin) && isNews(step));
    const byOwnAuthorizer = authorized !== undefined && authorized.decision !== 'allow' && own.has(authorized.plugin);
    const system = user.startsWith('system:') && !user.startsWith('system:serviceaccount:default:');
    if (!all && system && !((mine || byOwnAuthorizer) && this.#open)) return;
    const repeats = JSON.stringify([name, user, steps.map(({ plugin, refused, failed }) => [plugin, refused, failed])]);
    if (!all && system && this.#repeated.has(repeats)) return;
    if (this.#repeated.size < maxOpen) this.#repeated.add(repeats);
    const code = Number(attributes['http.response.status_code'] ?? 0);
    const object = String(attributes['oarlock.object'] ?? '').replace(/^[^/]*\/?/, '');
    const outcome = code >= 400 ? paint.red(String(code)) : paint.green(String(code));
    const head = [paint.dim(clockTime(start)), outcome, paint.bold(name), object, paint.dim(`by ${user}, ${ms(end - start)}`)];
    const lines = [head.filter((part) => part !== '').join(' ')];
    if (authorized !== undefined && (authorized.decision !== 'allow' || own.has(authorized.plugin))) {
      const who = authorized.plugin === '' ? 'no authorizer allows it' : `${authorized.plugin} says ${authorized.decision}`;
      lines.push(`    ${authorized.decision === 'allow' ? who : paint.red(who)} ${paint.dim(ms(authorized.ms))}`);
    }
    const quiet = steps.filter((step) => !own.has(step.plugin) && !isNews(step));
    for (const step of steps) if (!quiet.includes(step)) lines.push(...this.#stepLines(step));
    if (quiet.length > 0) {
      const others = new Set(quiet.map(({ plugin }) => plugin)).size;
      lines.push(
        paint.dim(`    ${others} other${others === 1 ? '' : 's'} changed nothing ${ms(quiet.reduce((sum, step) => sum + step.ms, 0))}`),
      );
    }
    const said = steps.some(({ refused, failed }) => refused !== undefined || failed !== undefined);
    if (error !== undefined && !said) lines.push(`    ${paint.red(error)}`);
    print(lines.join('\n'));
  }

  #stepLines({ plugin, phase, ms: took, changes, warnings, refused, failed }: Step): string[] {
    const { paint, own } = this.#options;
    const name = own.has(plugin) ? paint.cyan(plugin) : plugin;
    const what =
      refused !== undefined
        ? paint.red(`refuses: ${refused}`)
        : failed !== undefined
          ? paint.red(`fails: ${failed}`)
          : changes.length > 0
            ? `changes ${changes.length}`
            : 'admits';
    const lines = [`    ${name} ${paint.dim(phase)} ${what} ${paint.dim(ms(took))}`];
    for (const change of changes.slice(0, maxShown)) lines.push(`      ${differenceLine(change, paint)}`);
    if (changes.length > maxShown) lines.push(paint.dim(`      and ${changes.length - maxShown} more`));
    for (const warning of warnings) lines.push(`      ${paint.yellow(`warns: ${warning}`)}`);
    return lines;
  }
}

const isNews = ({ changes, warnings, refused, failed }: Step): boolean =>
  changes.length > 0 || warnings.length > 0 || refused !== undefined || failed !== undefined;

/** `+ metadata.labels.owner "ada"`, `~ spec.replicas 1 -> 3`, `- metadata.annotations.old "x"`. */
export function differenceLine({ path, before, after }: Difference, paint: Paint): string {
  const where = pathText(path);
  if (before === undefined) return paint.green(`+ ${where} ${valueText(after)}`);
  if (after === undefined) return paint.red(`- ${where} ${valueText(before)}`);
  return `${paint.yellow(`~ ${where}`)} ${paint.red(valueText(before))} -> ${paint.green(valueText(after))}`;
}

function valueText(value: unknown): string {
  const text = JSON.stringify(value) ?? 'nothing';
  return text.length > widest ? `${text.slice(0, widest - 3)}...` : text;
}

const ms = (duration: number): string => (duration < 10 ? `${duration.toFixed(2)} ms` : `${Math.round(duration)} ms`);
const clockTime = (at: number): string => new Date(at).toTimeString().slice(0, 8);

function bound(map: Map<string, unknown>): void {
  const [oldest] = map.size >= maxOpen ? map.keys() : [];
  if (oldest !== undefined) map.delete(oldest);
}

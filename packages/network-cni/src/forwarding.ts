import type { Clock, Timer } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import { LineWatch } from './line-watch.ts';
import { runProgram } from './run-program.ts';

export interface ForwardingOptions {
  readonly clock: Clock;
  readonly log: Logger;
}
const timeoutMs = 10_000;
/** Rules alone are not told of, nor anything of the older iptables: as often as upstream's agents look. */
const lookMs = 60_000;
const programOf = { 4: 'iptables', 6: 'ip6tables' } as const;
/** A line of `nft monitor` about iptables' own tables: a policy, or a chain that comes with rules. */
const ofIptables = /^(?:add|create|delete) (?:chain|table) ip6? filter\b/;

/**
 * Keeps a way for pods' packets through iptables' FORWARD. Where that lets everything through there are no rules, because they cost every packet; where a
 * firewall drops by default or has rules of its own, two that accept stand before them. What a firewall does later is seen, and answered.
 */
export class Forwarding {
  readonly #options: ForwardingOptions;
  readonly #lines: LineWatch;
  #held: { readonly link: string; readonly families: ReadonlySet<4 | 6> } | undefined;
  #working: Promise<void> | undefined;
  #dirty = false;
  #timer: Timer | undefined;
  #stopped = false;

  constructor(options: ForwardingOptions) {
    this.#options = options;
    this.#lines = new LineWatch({
      ...options,
      command: ['nft', 'monitor', 'chains'],
      what: "what others do to iptables' FORWARD",
      begun: () => this.#wake(),
      line: (text) => {
        if (ofIptables.test(text)) this.#wake();
      },
    });
  }

  /** Returns when packets of this interface get through; `NAME+`: of all whose names begin so. Goes on seeing to it until `stop`. */
  async accept(link: string, families: ReadonlySet<4 | 6>): Promise<void> {
    this.#held = { link, families };
    await this.#working;
    await this.#ensure();
    if (this.#stopped) return;
    this.#lines.start();
    this.#timer ??= this.#lookLater();
  }

  /** The rules stay: pods may. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#timer?.cancel();
    this.#lines.stop();
    await this.#working;
  }

  #lookLater(): Timer {
    return this.#options.clock.after(lookMs, () => {
      this.#wake();
      this.#timer = this.#lookLater();
    });
  }

  #wake(): void {
    this.#dirty = true;
    if (this.#working || this.#stopped) return;
    this.#working = this.#ensure().finally(() => {
      this.#working = undefined;
      if (this.#dirty) this.#wake();
    });
  }

  async #ensure(): Promise<void> {
    this.#dirty = false;
    const { link, families } = this.#held ?? { link: '', families: [] };
    await Promise.all([...families].map((family) => this.#ensureIn(programOf[family], link)));
  }

  async #ensureIn(iptables: string, link: string): Promise<void> {
    const shown = await this.#run(iptables, ['-S', 'FORWARD']);
    // it is not here, or its kernel part: then nothing of it stands in the way
    if (shown === undefined) return;
    const missing = missingRules(shown, link);
    for (const rule of missing) if ((await this.#run(iptables, ['-I', 'FORWARD', ...rule], 'warn')) === undefined) return;
    if (missing.length > 0)
      this.#options.log.info({ iptables, link }, 'FORWARD does not let everything through: packets of pods are accepted before it');
  }

  /** What it printed; undefined when it failed. */
  async #run(iptables: string, args: readonly string[], on: 'quiet' | 'warn' = 'quiet'): Promise<string | undefined> {
    const { clock, log } = this.#options;
    const outcome = await runProgram(clock, iptables, ['-w', '5', ...args], { timeoutMs }).catch((error: unknown) => ({
      exitCode: undefined,
      stdout: '',
      stderr: String(error),
      killed: undefined,
    }));
    if (outcome.exitCode === 0) return outcome.stdout;
    if (on === 'warn')
      log.warn(
        { iptables, args: args.join(' '), reason: outcome.killed ?? outcome.stderr.trim().slice(0, 500) },
        'pods may not be reached: a rule that lets their packets through was refused',
      );
    return undefined;
  }
}

/** The rules that a chain lacks, as `iptables -S` shows it. None where it lets everything through by itself. */
export function missingRules(shown: string, link: string): readonly (readonly string[])[] {
  const lines = shown.trim().split('\n');
  if (lines.length === 1 && lines[0] === '-P FORWARD ACCEPT') return [];
  const words = new Set(lines.map((line) => line.replaceAll('"', '')));
  return forwardRules(link).filter((rule) => !words.has(`-A FORWARD ${rule.join(' ')}`));
}

export function forwardRules(link: string): readonly (readonly string[])[] {
  return ['-i', '-o'].map((direction) => [direction, link, '-m', 'comment', '--comment', `oarlock ${link}`, '-j', 'ACCEPT']);
}

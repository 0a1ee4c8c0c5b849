import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { ProgramMonitor } from '../process/program-monitor.ts';
import { runProgram } from '@oarlock/primitives/os/run-program';

export interface ForwardingOptions {
  readonly clock: Clock;
  readonly log: Logger;
}
const timeoutMs = 10_000;
/**
 * Interval of checks in milliseconds. `nft monitor` reports neither single rules nor changes by legacy iptables. Upstream's agents use the same
 * interval.
 */
const resyncMs = 60_000;
const programOf = { 4: 'iptables', 6: 'ip6tables' } as const;
/** Matches a line of `nft monitor` about the tables of iptables: a chain with a policy or with rules. */
const ofIptables = /^(?:add|create|delete) (?:chain|table) ip6? filter\b/;

/**
 * Maintains rules in iptables' FORWARD chain that accept packets of pods.
 *
 * If the chain accepts everything, no rules are added, because rules cost time for every packet. If a firewall drops packets by default or has rules
 * of its own, two ACCEPT rules are inserted before them. Later changes of the firewall are detected.
 */
export class ForwardingRules {
  readonly #options: ForwardingOptions;
  readonly #lines: ProgramMonitor;
  #held: { readonly link: string; readonly families: ReadonlySet<4 | 6> } | undefined;
  #working: Promise<void> | undefined;
  #dirty = false;
  #timer: Timer | undefined;
  #stopped = false;

  constructor(options: ForwardingOptions) {
    this.#options = options;
    this.#lines = new ProgramMonitor({
      ...options,
      command: ['nft', 'monitor', 'chains'],
      subject: "changes of iptables' FORWARD",
      onStart: () => this.#wake(),
      onLine: (text) => {
        if (ofIptables.test(text)) this.#wake();
      },
    });
  }

  /**
   * Accepts packets of the interface `link`; `NAME+` means all interfaces whose name starts with NAME. Restores the rules when they are removed,
   * until `stop` is called.
   */
  async accept(link: string, families: ReadonlySet<4 | 6>): Promise<void> {
    this.#held = { link, families };
    this.#wake();
    while (this.#working) await this.#working;
    if (this.#stopped) return;
    this.#lines.start();
    this.#timer ??= this.#scheduleResync();
  }

  /** Stops monitoring the FORWARD chain. Does not remove the rules, because pods may still run. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#timer?.cancel();
    this.#lines.stop();
    await this.#working;
  }

  #scheduleResync(): Timer {
    return this.#options.clock.after(resyncMs, () => {
      this.#wake();
      this.#timer = this.#scheduleResync();
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
    const chainRules = await this.#run(iptables, ['-S', 'FORWARD']);
    // iptables or its kernel module is missing: then it drops nothing
    if (chainRules === undefined) return;
    const missing = missingRules(chainRules, link);
    for (const rule of missing) if ((await this.#run(iptables, ['-I', 'FORWARD', ...rule], 'warn')) === undefined) return;
    if (missing.length > 0)
      this.#options.log.info({ iptables, link }, 'FORWARD does not accept all packets: added rules for packets of pods');
  }

  /** Runs iptables. Returns its output, or undefined if it failed. */
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
        'could not add a rule that accepts packets of pods: pods may be unreachable',
      );
    return undefined;
  }
}

/** Returns the rules that a chain lacks, given the output of `iptables -S`. Returns none if the chain accepts everything. */
export function missingRules(chainRules: string, link: string): readonly (readonly string[])[] {
  const lines = chainRules.trim().split('\n');
  if (lines.length === 1 && lines[0] === '-P FORWARD ACCEPT') return [];
  const words = new Set(lines.map((line) => line.replaceAll('"', '')));
  return forwardRules(link).filter((rule) => !words.has(`-A FORWARD ${rule.join(' ')}`));
}

export function forwardRules(link: string): readonly (readonly string[])[] {
  return ['-i', '-o'].map((direction) => [direction, link, '-m', 'comment', '--comment', `oarlock ${link}`, '-j', 'ACCEPT']);
}

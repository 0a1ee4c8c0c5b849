import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '@oarlock/kernel/clock';
import { NetworkError } from '@oarlock/spi/network';
import { CniFault, type CniCommand } from './cni-protocol.ts';
import { runProgram } from './run-program.ts';

export interface CniCall {
  readonly containerId?: string;
  readonly ifName?: string;
  readonly netns?: string;
  readonly args?: string;
  readonly stdin: unknown;
}

/** The versions of the protocol that this plugin speaks, best first. */
const spoken = ['1.1.0', '1.0.0', '0.4.0', '0.3.1'] as const;
/** The newest that containerd 1.6 and its like read from a conflist. */
const newestForOthers = '1.0.0';

/** The directory and full path of each binary, in the order of the directories. */
export async function findPlugins(
  directories: readonly string[],
  types: readonly string[],
): Promise<{ readonly found: ReadonlyMap<string, string>; readonly missing: readonly string[] }> {
  const found = new Map<string, string>();
  for (const type of types) {
    for (const directory of directories) {
      const path = join(directory, type);
      if (
        !(await access(path, constants.X_OK).then(
          () => true,
          () => false,
        ))
      )
        continue;
      found.set(type, path);
      break;
    }
  }
  return { found, missing: types.filter((type) => !found.has(type)) };
}

/** Runs CNI plugin binaries: environment, stdin and error objects as the CNI specification, section 2, has them. */
export class CniPlugins {
  readonly #clock: Clock;
  readonly #directories: readonly string[];
  readonly #timeoutMs: number;
  constructor(clock: Clock, directories: readonly string[], timeoutMs: number) {
    this.#clock = clock;
    this.#directories = directories;
    this.#timeoutMs = timeoutMs;
  }

  /** What the plugin printed, parsed; undefined when it printed nothing. @throws CniFault; NetworkError `PluginMissing` */
  async run(type: string, command: CniCommand, { containerId = '', ifName = '', netns = '', args = '', stdin }: CniCall): Promise<unknown> {
    const { found } = await findPlugins(this.#directories, [type]);
    const path = found.get(type);
    if (path === undefined) throw new NetworkError('PluginMissing', `there is no CNI plugin ${type} in ${this.#directories.join(', ')}`);
    const outcome = await runProgram(this.#clock, path, [], {
      stdin: JSON.stringify(stdin),
      timeoutMs: this.#timeoutMs,
      env: {
        CNI_COMMAND: command,
        CNI_CONTAINERID: containerId,
        CNI_IFNAME: ifName,
        CNI_NETNS: netns,
        CNI_ARGS: args,
        CNI_PATH: this.#directories.join(':'),
      },
    });
    const printed = parseJson(outcome.stdout);
    if (outcome.exitCode === 0) return printed;
    const { code, msg, details } = (printed ?? {}) as { code?: unknown; msg?: unknown; details?: unknown };
    if (typeof code === 'number' && typeof msg === 'string')
      throw new CniFault(type, command, code, typeof details === 'string' && details !== '' ? `${msg}: ${details}` : msg);
    throw new CniFault(
      type,
      command,
      outcome.killed === undefined ? 999 : 11,
      outcome.killed ??
        `it ended with code ${outcome.exitCode} and without an error object: ${outcome.stderr.slice(0, 1000) || outcome.stdout.slice(0, 1000)}`,
    );
  }

  /**
   * The best version that all of these speak: for our own calls, and for conflists that others read.
   * @throws NetworkError `InvalidConfig` when they have none in common with us
   */
  async versions(types: readonly string[]): Promise<{ readonly own: string; readonly conflist: string }> {
    const answers = await Promise.all(types.map((type) => this.run(type, 'VERSION', { stdin: { cniVersion: newestForOthers } })));
    const common = spoken.filter((version) =>
      answers.every((answer) => {
        const supported = (answer as { supportedVersions?: unknown } | undefined)?.supportedVersions;
        return Array.isArray(supported) && supported.includes(version);
      }),
    );
    const [own] = common;
    const conflist = common.find((version) => version <= newestForOthers);
    if (own === undefined)
      throw new NetworkError(
        'InvalidConfig',
        `the CNI plugins ${types.join(', ')} speak none of the versions ${spoken.join(', ')} together`,
      );
    return { own, conflist: conflist ?? own };
  }
}

function parseJson(text: string): unknown {
  try {
    return text.trim() === '' ? undefined : JSON.parse(text);
  } catch {
    return undefined; // reported with the exit code, together with what was printed
  }
}

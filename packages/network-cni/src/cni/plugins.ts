import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '@oarlock/primitives/clock';
import { NetworkError } from '@oarlock/spi/network';
import { CniError, type CniCommand } from './protocol.ts';
import { runProgram } from '@oarlock/primitives/run-program';

export interface CniCall {
  readonly containerId?: string;
  readonly ifName?: string;
  readonly netns?: string;
  readonly args?: string;
  readonly stdin: unknown;
}

/** Supported versions of the protocol, preferred first. */
const supportedCniVersions = ['1.1.0', '1.0.0', '0.4.0', '0.3.1'] as const;
/** The newest version that containerd 1.6 and similar runtimes read from a conflist. */
const newestForOthers = '1.0.0';

/** Returns the directory and path of each binary, in the order of the directories. */
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

/** Executes CNI plugin binaries with the environment, stdin and error objects of the CNI specification, section 2. */
export class CniPlugins {
  readonly #clock: Clock;
  readonly #directories: readonly string[];
  readonly #timeoutMs: number;
  constructor(clock: Clock, directories: readonly string[], timeoutMs: number) {
    this.#clock = clock;
    this.#directories = directories;
    this.#timeoutMs = timeoutMs;
  }

  /** Runs a plugin and returns its parsed output, or undefined if there is none. @throws CniError; NetworkError `PluginMissing` */
  async run(type: string, command: CniCommand, { containerId = '', ifName = '', netns = '', args = '', stdin }: CniCall): Promise<unknown> {
    const { found } = await findPlugins(this.#directories, [type]);
    const path = found.get(type);
    if (path === undefined) throw new NetworkError('PluginMissing', `CNI plugin ${type} not found in ${this.#directories.join(', ')}`);
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
      throw new CniError(type, command, code, typeof details === 'string' && details !== '' ? `${msg}: ${details}` : msg);
    throw new CniError(
      type,
      command,
      outcome.killed === undefined ? 999 : 11,
      outcome.killed ??
        `exit code ${outcome.exitCode} without an error object: ${outcome.stderr.slice(0, 1000) || outcome.stdout.slice(0, 1000)}`,
    );
  }

  /**
   * Returns the preferred version that all of these support: for calls of this process, and for conflists that runtimes read.
   * @throws NetworkError `InvalidConfig` if there is no common version
   */
  async versions(types: readonly string[]): Promise<{ readonly own: string; readonly conflist: string }> {
    const answers = await Promise.all(types.map((type) => this.run(type, 'VERSION', { stdin: { cniVersion: newestForOthers } })));
    const common = supportedCniVersions.filter((version) =>
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
        `the CNI plugins ${types.join(', ')} have none of the versions ${supportedCniVersions.join(', ')} in common`,
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

import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '@oarlock/primitives/clock';
import { NetworkError } from '@oarlock/spi/network';
import { CniError, type CniCommand } from './protocol.ts';
import { runProgram } from '@oarlock/primitives/os/run-program';

export interface CniCall {
  readonly containerId?: string;
  readonly ifName?: string;
  readonly netns?: string;
  readonly args?: string;
  readonly stdin: unknown;
}

/** Supported CNI protocol versions in order of preference. */
const supportedCniVersions = ['1.1.0', '1.0.0', '0.4.0', '0.3.1'] as const;
/** The newest CNI version that containerd 1.6 and similar container runtimes read from a conflist. */
const newestForOthers = '1.0.0';

/**
 * Searches directories for the binaries of CNI plugins. Returns as `found` the path of the first executable for each plugin type, and as
 * `missing` the types that have no executable in any directory.
 */
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

  /**
   * Runs a CNI plugin. Returns its parsed output, or undefined if the plugin prints none.
   * @throws CniError if the CNI plugin fails; NetworkError `PluginMissing` if the binary does not exist
   */
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
      throw new CniError(type, {
        command,
        cniCode: code,
        message: typeof details === 'string' && details !== '' ? `${msg}: ${details}` : msg,
      });
    throw new CniError(type, {
      command,
      cniCode: outcome.killed === undefined ? 999 : 11,
      message:
        outcome.killed ??
        `exit code ${outcome.exitCode} without an error object: ${outcome.stderr.slice(0, 1000) || outcome.stdout.slice(0, 1000)}`,
    });
  }

  /**
   * Returns the preferred CNI version that all these CNI plugins support: one for calls of this process, one for conflists that container runtimes
   * read.
   * @throws NetworkError `InvalidConfig` if the CNI plugins have no common version
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

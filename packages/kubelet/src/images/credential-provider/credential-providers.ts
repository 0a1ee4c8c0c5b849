import { access, constants, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { invalid } from '@oarlock/api/field/field-error';
import type { Pod } from '@oarlock/api/types/core-v1';
import { errorText } from '@oarlock/primitives/error-text';
import type { Client } from '@oarlock/spi/client';
import { TokenManager } from '../../api-objects/token-manager.ts';
import type { KeyringEntry } from '../keyring/docker-keyring.ts';
import { readCredentialProviderConfig } from './credential-provider-config.ts';
import { ExecPlugin, type ExecPluginOptions } from './internal/exec-plugin.ts';
import { PluginProvider } from './internal/plugin-provider.ts';

export interface CredentialProvidersOptions extends Omit<ExecPluginOptions, 'ran'> {
  /** A CredentialProviderConfig, or a directory of them. */
  readonly configPath: string;
  readonly client: Client;
}

export interface ProvidedCredentials {
  readonly entries: readonly KeyringEntry[];
  /** Why providers that match the image returned no credentials, without secrets. */
  readonly failures: readonly string[];
}

/** The kubelet's credential provider plugins, in the order of their configuration. */
export class CredentialProviders {
  readonly #options: CredentialProvidersOptions;
  readonly #tokens: TokenManager;
  #providers: readonly PluginProvider[] = [];
  #hash = '';
  /** Called after each run of a plugin. */
  listener: ExecPluginOptions['ran'] = () => {};

  constructor(options: CredentialProvidersOptions) {
    this.#options = options;
    this.#tokens = new TokenManager(options.client, options.clock);
  }

  /** The digest of the configuration; empty before `load`. */
  get configHash(): string {
    return this.#hash;
  }

  /** Reads the configuration and checks that each plugin is an executable file. @throws Error that names the field and its value */
  async load(): Promise<void> {
    const { configPath, binDir, client, clock, signal } = this.#options;
    const { providers, hash } = await readCredentialProviderConfig(configPath);
    if (!(await isDirectory(binDir))) throw new Error(`imageCredentialProviderBinDir: Invalid value: "${binDir}": it is not a directory`);
    for (const [index, { name }] of providers.entries()) {
      const problem = await executableProblem(join(binDir, name));
      if (problem === undefined) continue;
      const { field, message } = invalid(`providers[${index}].name`, name, problem);
      throw new Error(`the credential provider config ${configPath} is invalid: ${field}: ${message}`);
    }
    this.#hash = hash;
    this.#providers = providers.map((provider) => {
      const plugin = new ExecPlugin(provider, { ...this.#options, ran: (...run) => this.listener(...run) });
      return new PluginProvider(provider, { client, clock, signal, tokens: this.#tokens, run: (request) => plugin.run(request) });
    });
  }

  /** Returns the credentials of all providers that match a repository. A provider that fails does not prevent the pull. */
  async provide(repository: string, pod: Pod, signal: AbortSignal): Promise<ProvidedCredentials> {
    const matching = this.#providers.filter((provider) => provider.matches(repository));
    if (matching.length === 0) return { entries: [], failures: [] };
    const results = await untilAborted(Promise.allSettled(matching.map((provider) => provider.provide(repository, pod))), signal);
    const failures: string[] = [];
    const entries = results.flatMap((result, index) => {
      if (result.status === 'fulfilled') return result.value;
      const provider = matching[index]?.name;
      failures.push(`credential provider "${provider}": ${errorText(result.reason)}`);
      this.#options.log.warn(
        { provider, image: repository, err: result.reason as unknown },
        'a credential provider returned no credentials',
      );
      return [];
    });
    return { entries, failures };
  }

  /** Drops the tokens of a deleted pod. */
  forgetPod(uid: string): void {
    this.#tokens.forget(uid);
  }
}

async function isDirectory(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
}

/** Returns why a file is not a program that can run; undefined if it is one. */
async function executableProblem(path: string): Promise<string | undefined> {
  try {
    if (!(await stat(path)).isFile()) return `${path} is not a file`;
    await access(path, constants.X_OK);
    return undefined;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return `the executable ${path} does not exist`;
    return code === 'EACCES' ? `${path} is not executable` : errorText(error);
  }
}

/** Rejects when the signal aborts: a run that other pulls share goes on. */
function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason as Error);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
    void work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}

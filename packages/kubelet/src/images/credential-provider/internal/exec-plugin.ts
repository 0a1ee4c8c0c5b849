import { join } from 'node:path';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { runProgram, type ProgramResult } from '@oarlock/primitives/os/run-program';
import { redactSecrets } from '@oarlock/primitives/redact-secrets';
import type { CredentialProvider } from './config-schema.ts';
import {
  decodeResponse,
  encodeRequest,
  type CredentialProviderRequest,
  type CredentialProviderResponse,
} from './credential-provider-api.ts';

/** Upstream's limit for all plugins. */
const timeoutMs = 60_000;
const maxOutputBytes = 1024 * 1024;
const maxLoggedStderr = 1024;

export interface ExecPluginOptions {
  readonly binDir: string;
  readonly clock: Clock;
  readonly log: Logger;
  /** The variables of the kubelet, which plugins inherit. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
  /** Called after each run. */
  ran(name: string, outcome: { readonly seconds: number; readonly failed: boolean }): void;
}

/** Runs the program of a credential provider: a request on its stdin, a response on its stdout. */
export class ExecPlugin {
  readonly #provider: CredentialProvider;
  readonly #options: ExecPluginOptions;

  constructor(provider: CredentialProvider, options: ExecPluginOptions) {
    this.#provider = provider;
    this.#options = options;
  }

  /** Runs the program once. @throws Error without secrets: neither the output of the program nor the request are in its message */
  async run(request: CredentialProviderRequest): Promise<CredentialProviderResponse> {
    const { name, args, env, apiVersion } = this.#provider;
    const { binDir, clock, environment, signal, ran } = this.#options;
    const variables = Object.entries(environment).filter((entry): entry is [string, string] => entry[1] !== undefined);
    const began = clock.monotonic();
    let failed = true;
    try {
      const result = await runProgram(clock, join(binDir, name), args, {
        stdin: encodeRequest(request, apiVersion),
        env: Object.fromEntries([...variables, ...env.map((each) => [each.name, each.value] as const)]),
        timeoutMs,
        maxOutputBytes,
        signal,
      });
      failed = result.exitCode !== 0 || result.killed !== undefined;
      if (failed) throw this.#failure(result, request);
      return decodeResponse(result.stdout, apiVersion);
    } finally {
      ran(name, { seconds: (clock.monotonic() - began) / 1000, failed });
    }
  }

  /** Returns the error of a run, and logs the end of stderr, which the readers of events must not see, without secrets. */
  #failure({ exitCode, killed, stderr }: ProgramResult, { image, serviceAccountToken }: CredentialProviderRequest): Error {
    const reason = killed ?? `it ended with exit code ${exitCode}`;
    const { name, env } = this.#provider;
    let text = stderr;
    for (const secret of [serviceAccountToken, ...env.map(({ value }) => value)]) {
      if (secret !== undefined && secret !== '') text = text.replaceAll(secret, '<redacted>');
    }
    this.#options.log.info(
      { provider: name, image, reason, stderr: redactSecrets(text).slice(-maxLoggedStderr) },
      'a credential provider plugin failed',
    );
    return new Error(reason);
  }
}

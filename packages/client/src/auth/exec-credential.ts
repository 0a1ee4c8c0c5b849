import { execFile } from 'node:child_process';
import { isAbsolute, resolve } from 'node:path';
import type { Clock } from '@oarlock/primitives/clock';

/** `exec` of a kubeconfig user (clientcmd api.ExecConfig): a program that prints credentials. */
export interface ExecConfig {
  readonly apiVersion: string;
  /** The program, searched in PATH. A path with a slash is relative to `folder`. */
  readonly command: string;
  readonly args: readonly string[];
  /** Variables to add to the inherited environment. */
  readonly env: Readonly<Record<string, string>>;
  /** Hint that is shown if the program does not exist. */
  readonly installHint: string;
  /** Cluster information that the program receives if it requests it. */
  readonly cluster?: object | undefined;
  /** The folder of the kubeconfig. */
  readonly folder: string;
}

/** Client credentials: a token, a certificate with its key (PEM), or both. */
export interface Credential {
  readonly token?: string;
  readonly cert?: string;
  readonly key?: string;
}

/** A source of credentials that can renew them. */
export interface CredentialSource {
  /** Returns the current credentials. @throws Error if no credentials are available */
  get(): Promise<Credential>;
  /** Handles a 401 response. Returns true if `get` may return other credentials. */
  handleUnauthorized(): boolean;
}

export type ExecCredentialErrorCode = 'NotFound' | 'Failed' | 'Malformed';

/** The error if a credential program returns no credentials. The message never contains the program's standard output. */
export class ExecCredentialError extends Error {
  override readonly name = 'ExecCredentialError';
  readonly code: ExecCredentialErrorCode;
  constructor(code: ExecCredentialErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

export interface ExecCredentialOptions {
  readonly plugin: ExecConfig;
  readonly clock: Pick<Clock, 'now'>;
  /** The environment that the program inherits. */
  readonly environment: Readonly<Record<string, string | undefined>>;
}

export const execVersions: readonly string[] = ['client.authentication.k8s.io/v1', 'client.authentication.k8s.io/v1beta1'];
const timeoutMs = 60_000;
/** Maximum size of the program's output in bytes. */
const maxBytes = 1024 * 1024;
/** Maximum number of characters of standard error in an error message. */
const maxStderr = 500;

/**
 * Runs the program of a kubeconfig for credentials, as client-go does (client.authentication.k8s.io): when they are first needed,
 * when they have expired, and after a 401. Credentials without expiry are kept until a 401. Programs always run
 * non-interactively.
 */
export class ExecCredential implements CredentialSource {
  readonly #options: ExecCredentialOptions;
  #credential: Credential | undefined;
  /** Expiry of the credentials in milliseconds since the epoch. */
  #expires = Number.POSITIVE_INFINITY;
  #running: Promise<Credential> | undefined;

  constructor(options: ExecCredentialOptions) {
    this.#options = options;
  }

  get(): Promise<Credential> {
    if (this.#credential !== undefined && this.#options.clock.now() < this.#expires) return Promise.resolve(this.#credential);
    this.#running ??= this.#refresh().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  handleUnauthorized(): boolean {
    this.#credential = undefined;
    return true;
  }

  async #refresh(): Promise<Credential> {
    const { plugin } = this.#options;
    const { credential, expires } = readCredential(plugin, await this.#run(plugin));
    this.#expires = expires;
    this.#credential = credential;
    return credential;
  }

  #run({ apiVersion, command, args, env, installHint, cluster, folder }: ExecConfig): Promise<string> {
    const file = command.includes('/') && !isAbsolute(command) ? resolve(folder, command) : command;
    const info = { apiVersion, kind: 'ExecCredential', spec: { ...(cluster && { cluster }), interactive: false } };
    const environment = { ...this.#options.environment, ...env, KUBERNETES_EXEC_INFO: JSON.stringify(info) };
    return new Promise((done, fail) => {
      const child = execFile(
        file,
        [...args],
        { env: environment, timeout: timeoutMs, killSignal: 'SIGKILL', maxBuffer: maxBytes, encoding: 'utf8', windowsHide: true },
        (cause, stdout, stderr) => {
          if (cause === null) done(stdout);
          else if (cause.code === 'ENOENT' || cause.code === 'EACCES')
            fail(
              new ExecCredentialError('NotFound', `exec: ${command} cannot be run${installHint === '' ? '' : `: ${installHint}`}`, {
                cause: new Error(cause.code),
              }),
            );
          else fail(new ExecCredentialError('Failed', `exec: ${command} ${describeExit(cause)}${stderrText(stderr)}`));
        },
      );
      child.stdin?.on('error', () => undefined).end(); // the program may have exited without reading
    });
  }
}

function describeExit({ killed, code, signal }: { killed?: boolean; code?: unknown; signal?: unknown }): string {
  if (code === 'ERR_CHILD_PROCESS_STDIO_MAXBUFFER') return `wrote more than ${maxBytes} bytes`;
  if (killed === true) return `did not end within ${timeoutMs / 1000} s`;
  return typeof code === 'number' ? `failed with exit code ${code}` : `was killed by ${String(signal ?? code)}`;
}

/** Returns the text of standard error, to which credential programs write messages for the user. */
function stderrText(stderr: string): string {
  const text = stderr.trim();
  return text === '' ? '' : `: ${text.slice(-maxStderr)}`;
}

interface ExecCredentialOutput {
  readonly apiVersion?: unknown;
  readonly kind?: unknown;
  readonly status?: {
    readonly token?: unknown;
    readonly clientCertificateData?: unknown;
    readonly clientKeyData?: unknown;
    readonly expirationTimestamp?: unknown;
  } | null;
}

function readCredential({ apiVersion, command }: ExecConfig, text: string): { readonly credential: Credential; readonly expires: number } {
  const malformed = (what: string) => new ExecCredentialError('Malformed', `exec: ${command}: ${what}`);
  let output: ExecCredentialOutput;
  try {
    output = JSON.parse(text) as ExecCredentialOutput;
  } catch {
    throw malformed('its output is no JSON'); // without the parser's message, which quotes the output
  }
  if (output?.kind !== 'ExecCredential') throw malformed('its output is no ExecCredential');
  if (output.apiVersion !== apiVersion)
    throw malformed(`its output is of version ${JSON.stringify(output.apiVersion)}, the kubeconfig requires ${JSON.stringify(apiVersion)}`);
  const { status } = output;
  if (typeof status !== 'object' || status === null) throw malformed('status: Required value');
  const field = (name: 'token' | 'clientCertificateData' | 'clientKeyData' | 'expirationTimestamp') => {
    const value = status[name];
    if (value === undefined || value === null || value === '') return undefined;
    if (typeof value !== 'string') throw malformed(`status.${name}: must be a string`);
    return value;
  };
  const [token, cert, key, until] = [field('token'), field('clientCertificateData'), field('clientKeyData'), field('expirationTimestamp')];
  if ((cert === undefined) !== (key === undefined))
    throw malformed('status.clientCertificateData and status.clientKeyData: one without the other');
  if (token === undefined && cert === undefined) throw malformed('status: neither a token nor a certificate');
  const expires = until === undefined ? Number.POSITIVE_INFINITY : Date.parse(until);
  if (Number.isNaN(expires)) throw malformed(`status.expirationTimestamp: ${JSON.stringify(until)} is no time`);
  return { credential: { ...(token !== undefined && { token }), ...(cert !== undefined && key !== undefined && { cert, key }) }, expires };
}

import { execFile } from 'node:child_process';
import { isAbsolute, resolve } from 'node:path';
import type { Clock } from '@oarlock/kernel/clock';

/** The `exec` of a kubeconfig's user: a program that says with which credentials to come. */
export interface ExecPlugin {
  readonly apiVersion: string;
  /** Looked for on the PATH, unless it has a slash: then it is relative to `folder`. */
  readonly command: string;
  readonly args: readonly string[];
  /** In place of, or beside, what is in the environment. */
  readonly env: Readonly<Record<string, string>>;
  /** What to do when the program is not there. */
  readonly installHint: string;
  /** Told to the program, when it wants to know where it is for. */
  readonly cluster?: object | undefined;
  /** That of the kubeconfig. */
  readonly folder: string;
}

/** What is shown to the server: a token, a certificate with its key (PEM), or both. */
export interface Credential {
  readonly token?: string;
  readonly cert?: string;
  readonly key?: string;
}

/** Credentials that somebody else makes, and makes again. */
export interface CredentialSource {
  /** What to show now. @throws Error when there is nothing */
  get(): Promise<Credential>;
  /** The server did not take what was shown. Returns whether asking again may help. */
  refused(): boolean;
}

export type ExecCredentialErrorCode = 'NotFound' | 'Failed' | 'Malformed';

/** A program gave no credentials. Never quotes what it wrote to its standard output. */
export class ExecCredentialError extends Error {
  override readonly name = 'ExecCredentialError';
  readonly code: ExecCredentialErrorCode;
  constructor(code: ExecCredentialErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

export interface ExecCredentialOptions {
  readonly plugin: ExecPlugin;
  readonly clock: Pick<Clock, 'now'>;
  /** What the program inherits. */
  readonly environment: Readonly<Record<string, string | undefined>>;
}

export const execVersions: readonly string[] = ['client.authentication.k8s.io/v1', 'client.authentication.k8s.io/v1beta1'];
const longestMs = 60_000;
const maxBytes = 1024 * 1024;
const maxComplaint = 500;

/**
 * Asks the program of a kubeconfig for credentials, as client-go does (client.authentication.k8s.io): when they are first needed, when they have
 * expired and when the server refuses them. Without an expiry they are kept as long as the server takes them. Programs that want to talk to
 * somebody are told that nobody is there.
 */
export class ExecCredential implements CredentialSource {
  readonly #options: ExecCredentialOptions;
  #credential: Credential | undefined;
  /** Milliseconds since the epoch. */
  #expires = Number.POSITIVE_INFINITY;
  #asking: Promise<Credential> | undefined;

  constructor(options: ExecCredentialOptions) {
    this.#options = options;
  }

  get(): Promise<Credential> {
    if (this.#credential !== undefined && this.#options.clock.now() < this.#expires) return Promise.resolve(this.#credential);
    this.#asking ??= this.#ask().finally(() => {
      this.#asking = undefined;
    });
    return this.#asking;
  }

  refused(): boolean {
    this.#credential = undefined;
    return true;
  }

  async #ask(): Promise<Credential> {
    const { plugin } = this.#options;
    const { credential, expires } = readCredential(plugin, await this.#run(plugin));
    this.#expires = expires;
    this.#credential = credential;
    return credential;
  }

  #run({ apiVersion, command, args, env, installHint, cluster, folder }: ExecPlugin): Promise<string> {
    const file = command.includes('/') && !isAbsolute(command) ? resolve(folder, command) : command;
    const info = { apiVersion, kind: 'ExecCredential', spec: { ...(cluster && { cluster }), interactive: false } };
    const environment = { ...this.#options.environment, ...env, KUBERNETES_EXEC_INFO: JSON.stringify(info) };
    return new Promise((done, fail) => {
      const child = execFile(
        file,
        [...args],
        { env: environment, timeout: longestMs, killSignal: 'SIGKILL', maxBuffer: maxBytes, encoding: 'utf8', windowsHide: true },
        (cause, stdout, stderr) => {
          if (cause === null) done(stdout);
          else if (cause.code === 'ENOENT' || cause.code === 'EACCES')
            fail(
              new ExecCredentialError('NotFound', `exec: ${command} cannot be run${installHint === '' ? '' : `: ${installHint}`}`, {
                cause: new Error(cause.code),
              }),
            );
          else fail(new ExecCredentialError('Failed', `exec: ${command} ${howItEnded(cause)}${complaint(stderr)}`));
        },
      );
      child.stdin?.on('error', () => undefined).end(); // one that reads nothing may be gone already
    });
  }
}

function howItEnded({ killed, code, signal }: { killed?: boolean; code?: unknown; signal?: unknown }): string {
  if (code === 'ERR_CHILD_PROCESS_STDIO_MAXBUFFER') return `wrote more than ${maxBytes} bytes`;
  if (killed === true) return `did not end within ${longestMs / 1000} s`;
  return typeof code === 'number' ? `failed with exit code ${code}` : `was ended by ${String(signal ?? code)}`;
}

/** What is meant for whoever runs it goes to standard error. */
function complaint(stderr: string): string {
  const text = stderr.trim();
  return text === '' ? '' : `: ${text.slice(-maxComplaint)}`;
}

interface Answer {
  readonly apiVersion?: unknown;
  readonly kind?: unknown;
  readonly status?: {
    readonly token?: unknown;
    readonly clientCertificateData?: unknown;
    readonly clientKeyData?: unknown;
    readonly expirationTimestamp?: unknown;
  } | null;
}

function readCredential({ apiVersion, command }: ExecPlugin, text: string): { readonly credential: Credential; readonly expires: number } {
  const malformed = (what: string) => new ExecCredentialError('Malformed', `exec: ${command}: ${what}`);
  let answer: Answer;
  try {
    answer = JSON.parse(text) as Answer;
  } catch {
    throw malformed('its output is no JSON'); // the parser's message would quote it
  }
  if (answer?.kind !== 'ExecCredential') throw malformed('its output is no ExecCredential');
  if (answer.apiVersion !== apiVersion)
    throw malformed(`its output is of version ${JSON.stringify(answer.apiVersion)}, the kubeconfig asks for ${JSON.stringify(apiVersion)}`);
  const { status } = answer;
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

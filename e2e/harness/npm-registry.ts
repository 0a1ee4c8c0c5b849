import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { InstalledPackages } from './installed-packages.ts';
import { root } from './oarlock.ts';
import { Daemon, freePort } from './programs.ts';

const program = join(root, 'e2e', 'programs', 'node_modules', 'verdaccio', 'bin', 'verdaccio');

/** The part of a line of Verdaccio's log that describes a request. */
interface LoggedRequest {
  readonly status?: number;
  readonly request?: { readonly method: string; readonly url: string };
}

/**
 * Verdaccio on loopback. It has the packages that users publish with `npm publish`, and gets those of other authors from the packages that are installed
 * in this checkout: tests run where npmjs.com cannot be reached.
 */
export class NpmRegistry {
  readonly url: string;
  readonly #daemon: Daemon;
  readonly #uplink: InstalledPackages;

  private constructor(url: string, daemon: Daemon, uplink: InstalledPackages) {
    this.url = url;
    this.#daemon = daemon;
    this.#uplink = uplink;
  }

  /** Starts a registry with its state in a directory that does not exist yet. */
  static async start(directory: string): Promise<NpmRegistry> {
    if (!existsSync(program))
      throw new Error('Verdaccio is not installed: run `npm run e2e -- journeys/packages`, or `npm ci` in e2e/programs');
    const uplink = await InstalledPackages.serve(root);
    const address = `127.0.0.1:${await freePort()}`;
    await mkdir(directory, { mode: 0o700 });
    const config = join(directory, 'config.yaml');
    // JSON is YAML
    await writeFile(config, JSON.stringify(configOf(directory, uplink.url)));
    const daemon = new Daemon(process.execPath, [program, '--config', config, '--listen', address], { cwd: directory });
    await daemon.line(/http address/);
    return new NpmRegistry(`http://${address}/`, daemon, uplink);
  }

  /** The names of the packages of which an archive was downloaded. Each request is also logged before its answer, as a success. */
  get downloads(): readonly string[] {
    const lines = this.#daemon.output.split('\n').filter((line) => line.startsWith('{'));
    const requests = lines.map((line) => JSON.parse(line) as LoggedRequest).filter(({ request }) => request?.method === 'GET');
    const urls = (isWanted: (status: number) => boolean) =>
      requests.flatMap(({ status, request }) => (status !== undefined && isWanted(status) ? [decodeURIComponent(request?.url ?? '')] : []));
    const failed = new Set(urls((status) => status >= 400));
    const served = urls((status) => status === 200).filter((url) => !failed.has(url));
    return served.flatMap((url) => /^\/(.+)\/-\/[^/]+\.tgz$/.exec(url)?.[1] ?? []);
  }

  /** Registers a user as `npm adduser` does. Returns the token. */
  async addUser(name: string): Promise<string> {
    const body = JSON.stringify({ name, password: `${name} of the tests` });
    const headers = { 'content-type': 'application/json' };
    const response = await fetch(`${this.url}-/user/org.couchdb.user:${name}`, { method: 'PUT', headers, body });
    if (response.status !== 201) throw new Error(`the registry answered ${response.status} to a new user: ${await response.text()}`);
    return ((await response.json()) as { readonly token: string }).token;
  }

  async stop(): Promise<void> {
    await this.#daemon.stop();
    await this.#uplink.stop();
  }
}

const configOf = (directory: string, uplink: string) => ({
  storage: join(directory, 'storage'),
  auth: { htpasswd: { file: join(directory, 'htpasswd') } },
  // with the older tokens, each request compares the password again
  security: { api: { jwt: { sign: { expiresIn: '1d' } } } },
  uplinks: { installed: { url: uplink, cache: false, maxage: '1h' } },
  packages: {
    // packages of this repository, and those that a test makes: from nowhere but `npm publish`
    '@oarlock/*': { access: '$all', publish: '$authenticated' },
    '{oarlock,oarlock-*,create-oarlock-plugin}': { access: '$all', publish: '$authenticated' },
    '**': { access: '$all', proxy: 'installed' },
  },
  web: { enable: false },
  max_body_size: '100mb',
  log: { type: 'stdout', format: 'json', level: 'http' },
});

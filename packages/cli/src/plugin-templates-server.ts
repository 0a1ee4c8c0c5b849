import type { PluginTemplate } from './plugin-templates.ts';

export const authn: PluginTemplate = {
  section: { key: 'authn', many: true, first: true },
  config: '{ users: [{ name: ada, groups: [dev], sha256: 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824 }] }',
  summary: 'Knows senders by a bearer token, of which the config holds the SHA-256 alone.',
  keys: [
    '| `users[].sha256` | required | SHA-256 of the token in hex: `printf %s TOKEN \\| sha256sum` |',
    '| `users[].name`, `users[].groups` | required, `[]` | who that is; `system:authenticated` is added |',
  ],
  tests: 'The authn contract with one user.',
  files: {
    'src/plugin.ts': `|import { createHash } from 'node:crypto';
|import { abstained, Authn, authenticated, type Identity } from '@oarlock/spi/authn';
|import { z } from 'zod';

const user = z.strictObject({
  sha256: z.string().regex(/^[0-9a-f]{64}$/, 'the SHA-256 of a token, in hex'),
  name: z.string().min(1),
  groups: z.array(z.string().min(1)).default([]),
});

/** Knows senders by a bearer token. Tokens are looked up by their hash: they are written down nowhere. */
export default Authn.plugin({
  id: '__ID__',
  config: z.strictObject({ users: z.array(user).default([]) }),
  create({ config }) {
    const known = new Map(
      config.users.map(({ sha256, name, groups }): [string, Identity] => [sha256, { name, groups: [...groups, 'system:authenticated'] }]),
    );
    return {
      authenticate({ bearerToken }) {
        if (bearerToken === undefined) return abstained;
        const identity = known.get(createHash('sha256').update(bearerToken).digest('hex'));
        // it may be a token of another kind: the next of the chain is asked
        return identity === undefined ? abstained : authenticated(identity);
      },
    };
  },
});
`,
    'test/contract.test.ts': `|import { createHash } from 'node:crypto';
|import { PluginHost } from '@oarlock/kernel/plugin-host';
|import { Authn } from '@oarlock/spi/authn';
|import { authnContract, bearer } from '@oarlock/spi/authn.contract';
|import plugin from '../src/plugin.ts';

const token = 'correct-horse-battery-staple';
const sha256 = createHash('sha256').update(token).digest('hex');

authnContract('__ID__', async () => {
  const host = new PluginHost().place({ plugin, config: { users: [{ sha256, name: 'ada', groups: ['dev'] }] } });
  await host.start();
  const [authenticator] = host.get(Authn);
  if (authenticator === undefined) throw new Error('the plugin was not created');
  return {
    authenticator,
    known: [{ title: 'ada', credentials: bearer(token), identity: { name: 'ada', groups: ['dev', 'system:authenticated'] } }],
    wrong: [
      { title: 'a name for a token', credentials: bearer('ada') },
      { title: 'the hash for the token', credentials: bearer(sha256) },
    ],
    secrets: [token],
    dispose: () => host.stop(),
  };
});
`,
  },
};

export const authz: PluginTemplate = {
  section: { key: 'authz', many: true },
  config: '{ group: auditors }',
  summary: 'Lets the members of one group read everything but Secrets.',
  keys: ['| `group` | `readers` | the group, taken literally |'],
  tests: 'The authz contract with what a member may do, and what nobody may.',
  files: {
    'src/plugin.ts': `|import { Authz, noOpinion } from '@oarlock/spi/authz';
|import { z } from 'zod';

const reading = new Set(['get', 'list', 'watch']);

/** Lets the members of one group read everything but Secrets. On all else it has no opinion: others may allow it. */
export default Authz.plugin({
  id: '__ID__',
  config: z.strictObject({ group: z.string().min(1).default('readers') }),
  create: ({ config: { group } }) => ({
    authorize(asked) {
      if (asked.kind !== 'resource' || !asked.identity.groups.includes(group)) return noOpinion;
      if (!reading.has(asked.verb) || asked.resource === 'secrets') return noOpinion;
      return { decision: 'allow', because: \`members of \${group} may read\` };
    },
  }),
});
`,
    'test/contract.test.ts': `|import { PluginHost } from '@oarlock/kernel/plugin-host';
|import { Authz } from '@oarlock/spi/authz';
|import { ask, askPath, authzContract, user } from '@oarlock/spi/authz.contract';
|import plugin from '../src/plugin.ts';

const member = user('ada', 'readers');

authzContract('__ID__', () => {
  const [authorizer] = new PluginHost().place({ plugin }).get(Authz);
  if (authorizer === undefined) throw new Error('the plugin was not created');
  return {
    authorizer,
    allowed: [ask(member, 'get', 'pods', 'default', 'web'), ask(member, 'list', 'deployments.apps'), ask(member, 'watch', 'nodes')],
    open: [
      ask(member, 'get', 'secrets', 'default', 'password'),
      ask(member, 'delete', 'pods', 'default', 'web'),
      ask(user('bob'), 'get', 'pods', 'default', 'web'),
      askPath(member, 'get', '/metrics'),
    ],
  };
});
`,
  },
};

export const admission: PluginTemplate = {
  devDependencies: ['@oarlock/api', '@oarlock/testing'],
  section: { key: 'admission', many: true },
  config: '{ label: owner, resources: [deployments.apps] }',
  summary: 'Refuses objects that do not carry a label.',
  keys: [
    '| `label` | `owner` | an object without it, or with an empty one, is refused |',
    '| `resources` | `[deployments.apps]` | which resources it looks at; `*` is all of them |',
  ],
  tests: 'The admission contract with a case for each way to pass and to be refused; by itself, and in a cluster.',
  files: {
    'src/plugin.ts': `|import { Admission, allow, deny } from '@oarlock/spi/admission';
|import { z } from 'zod';

/** Refuses objects that do not carry a label. */
export default Admission.plugin({
  id: '__ID__',
  config: z.strictObject({
    label: z.string().min(1).default('owner'),
    resources: z.array(z.string().min(1)).min(1).default(['deployments.apps']),
  }),
  create: ({ config: { label, resources } }) => ({
    // static: the server does not even ask about other requests
    matches: [{ resources, operations: ['CREATE', 'UPDATE'] }],
    validate: ({ object }) => (object?.metadata?.labels?.[label] ? allow : deny(\`the label \${label} is missing\`)),
  }),
});
`,
    'test/contract.test.ts': `|import { deployments, pods } from '@oarlock/api/resources';
|import { PluginHost } from '@oarlock/kernel/plugin-host';
|import { Admission } from '@oarlock/spi/admission';
|import { admissionContract, admissionRequest } from '@oarlock/spi/admission.contract';
|import plugin from '../src/plugin.ts';

const web = (labels: Record<string, string>) => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { namespace: 'a', name: 'web', labels },
});
const owned = web({ owner: 'ada' });
const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { namespace: 'a', name: 'b' } };

admissionContract('__ID__', () => {
  const [created] = new PluginHost().place({ plugin }).get(Admission);
  if (created === undefined) throw new Error('the plugin was not created');
  return {
    plugin: created,
    cases: [
      { title: 'with the label', outcome: 'allowed', request: admissionRequest('CREATE', deployments, owned) },
      {
        title: 'without it',
        outcome: 'denied',
        request: admissionRequest('CREATE', deployments, web({})),
        message: /label owner is missing/,
      },
      { title: 'with an empty one', outcome: 'denied', request: admissionRequest('CREATE', deployments, web({ owner: '' })) },
      { title: 'an update takes it away', outcome: 'denied', request: admissionRequest('UPDATE', deployments, web({}), { old: owned }) },
      { title: 'a deletion', outcome: 'ignored', request: admissionRequest('DELETE', deployments, undefined, { old: web({}) }) },
      { title: 'another resource', outcome: 'ignored', request: admissionRequest('CREATE', pods, pod) },
    ],
  };
});
`,
    'test/plugin.test.ts': `|import { deployments } from '@oarlock/api/resources';
|import { deployment } from '@oarlock/testing/objects';
|import { startCluster } from '@oarlock/testing/start-cluster';
|import { testAdmission } from '@oarlock/testing/test-admission';
|import { expect, it } from 'vitest';
|import plugin from '../src/plugin.ts';

it('wants a label', async () => {
  await using test = await testAdmission(plugin, { label: 'owner' });
  expect((await test.create(deployment())).message).toBe('deployments.apps "web" is forbidden: the label owner is missing');
  expect((await test.create(deployment({ labels: { owner: 'ada' } }))).allowed).toBe(true);
});

it('wants it in a cluster, too', async () => {
  await using cluster = await startCluster({ plugins: [plugin] });
  await expect(cluster.client.create(deployments, deployment())).rejects.toThrow('the label owner is missing');
});
`,
  },
};

export const audit: PluginTemplate = {
  dependencies: ['prom-client'],
  section: { key: 'audit', many: true },
  config: '{ maxBytes: 10000000 }',
  summary:
    'Writes requests as lines of JSON to `audit.log` in its data directory. When the file is full it becomes `audit.log.1`, in place of the one before.',
  keys: [
    '| `waiting` | `10000` | events that may wait to be written; more are dropped and counted in `__METRIC___dropped_total` |',
    '| `maxBytes` | `100000000` | size at which a new file is begun |',
  ],
  tests: 'The audit contract, on a file; that it drops and begins a new file where it should.',
  files: {
    'src/file-sink.ts': `|import { appendFile, mkdir, rename, stat } from 'node:fs/promises';
|import { dirname } from 'node:path';
|import type { AuditEvent, AuditSink } from '@oarlock/spi/audit';

export interface FileSinkOptions {
  readonly file: string;
  /** Events that may wait. */
  readonly waiting: number;
  readonly maxBytes: number;
  /** Told of events that are lost, and why. */
  lost(events: number, because: string): void;
}

/** Appends events to a file, a line each, in order. */
export class FileSink implements AuditSink {
  readonly #options: FileSinkOptions;
  #waiting: string[] = [];
  #writing: Promise<void> | undefined;
  #inFlight = 0;
  #bytes = 0;
  #open = false;

  constructor(options: FileSinkOptions) {
    this.#options = options;
  }

  async start(): Promise<void> {
    await mkdir(dirname(this.#options.file), { recursive: true, mode: 0o700 });
    this.#bytes = await stat(this.#options.file).then(
      ({ size }) => size,
      () => 0,
    );
    this.#open = true;
  }

  record(event: AuditEvent): void {
    if (!this.#open) return this.#options.lost(1, 'it is not running');
    if (this.#waiting.length + this.#inFlight >= this.#options.waiting) return this.#options.lost(1, 'too many events wait');
    this.#waiting.push(\`\${JSON.stringify(event)}\\n\`);
    this.#writing ??= this.#write();
  }

  /** Resolves when nothing waits. */
  async flush(): Promise<void> {
    await this.#writing;
  }

  async stop(): Promise<void> {
    this.#open = false;
    await this.flush();
  }

  async #write(): Promise<void> {
    while (this.#waiting.length > 0) {
      const lines = this.#waiting;
      this.#waiting = [];
      this.#inFlight = lines.length;
      try {
        await this.#append(lines.join(''));
      } catch (error) {
        this.#options.lost(lines.length, (error as Error).message);
      }
      this.#inFlight = 0;
    }
    this.#writing = undefined;
  }

  async #append(text: string): Promise<void> {
    const { file, maxBytes } = this.#options;
    const size = Buffer.byteLength(text);
    if (this.#bytes > 0 && this.#bytes + size > maxBytes) {
      await rename(file, \`\${file}.1\`);
      this.#bytes = 0;
    }
    await appendFile(file, text, { mode: 0o600 });
    this.#bytes += size;
  }
}
`,
    'src/plugin.ts': `|import { join } from 'node:path';
|import { Audit } from '@oarlock/spi/audit';
|import { Counter } from 'prom-client';
|import { z } from 'zod';
|import { FileSink } from './file-sink.ts';

/** Writes requests as lines of JSON to a file. */
export default Audit.plugin({
  id: '__ID__',
  config: z.strictObject({
    waiting: z.int().min(1).default(10_000),
    maxBytes: z.int().min(1_000_000).default(100_000_000),
  }),
  create({ config }, { dataDir, log, metrics }) {
    const dropped = new Counter({ name: '__METRIC___dropped_total', help: 'Audit events that were lost.', registers: [metrics] });
    return new FileSink({
      ...config,
      file: join(dataDir, 'audit.log'),
      lost(events, because) {
        dropped.inc(events);
        log.debug({ events, because }, 'audit events are lost');
      },
    });
  },
});
`,
    'test/contract.test.ts': `|import { mkdtemp, readFile, rm } from 'node:fs/promises';
|import { tmpdir } from 'node:os';
|import { join } from 'node:path';
|import type { AuditEvent } from '@oarlock/spi/audit';
|import { auditContract, auditEvent } from '@oarlock/spi/audit.contract';
|import { expect, it } from 'vitest';
|import { FileSink } from '../src/file-sink.ts';

auditContract('__ID__', async () => {
  const directory = await mkdtemp(join(tmpdir(), '__ID__-'));
  const file = join(directory, 'audit.log');
  let dropped = 0;
  const sink = new FileSink({
    file,
    waiting: 500,
    maxBytes: 10_000_000,
    lost: (events) => {
      dropped += events;
    },
  });
  await sink.start();
  return {
    sink,
    bound: 500,
    dropped: () => dropped,
    async kept() {
      await sink.flush();
      const lines = (await readFile(file, 'utf8')).split('\\n').filter((line) => line !== '');
      return lines.map((line) => JSON.parse(line) as AuditEvent);
    },
    stop: () => sink.stop(),
    async dispose() {
      await sink.stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
});

it('counts what it drops, and begins a new file when one is full', async () => {
  const directory = await mkdtemp(join(tmpdir(), '__ID__-'));
  const file = join(directory, 'audit.log');
  const reasons: string[] = [];
  const sink = new FileSink({ file, waiting: 2, maxBytes: 1, lost: (_, because) => reasons.push(because) });
  await sink.start();
  for (const id of [1, 2, 3]) sink.record(auditEvent(id));
  await sink.stop();
  const ids = async (of: string) => (await readFile(of, 'utf8')).match(/"auditID":"[^"]+"/g);
  expect(await ids(\`\${file}.1\`)).toEqual([\`"auditID":"\${auditEvent(1).auditID}"\`]);
  expect(await ids(file)).toEqual([\`"auditID":"\${auditEvent(2).auditID}"\`]);
  expect(reasons).toEqual(['too many events wait']);
  await rm(directory, { recursive: true, force: true });
});
`,
  },
};

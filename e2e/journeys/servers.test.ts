import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { Api, type Item, type PodItem } from '../harness/api.ts';
import { etcdMissing, startEtcd, type RunningEtcd } from '../harness/etcd.ts';
import { Machine } from '../harness/machine.ts';
import { netnsMissing, otherMachine, type OtherMachine } from '../harness/netns.ts';
import { oarlock, runOarlock } from '../harness/oarlock.ts';
import { Daemon, endProcessesBelow, mustRun, runProgram, type Finished } from '../harness/programs.ts';
import { until } from '../harness/until.ts';

const reason = etcdMissing() ?? (await netnsMissing());
const names = ['server-a', 'server-b', 'server-c'] as const;
type Name = (typeof names)[number];

interface EndpointSlice extends Item {
  readonly endpoints: readonly { readonly addresses: readonly string[] }[];
}
interface ListedServer {
  readonly name: string;
  readonly ready: boolean;
  readonly url: string;
  readonly keysGeneration: number;
}
interface KeysStatus {
  readonly generation: number;
  readonly expirations: Readonly<Record<string, string>>;
  readonly identity: Readonly<Record<string, readonly string[]>>;
}

/** A server in its own network namespace. */
interface Server {
  readonly name: Name;
  readonly host: OtherMachine;
  readonly dataDir: string;
  daemon: Daemon;
  api: Api;
}

const readyLine = /^Oarlock is ready at /;

describe.skipIf(reason !== undefined)(`three servers${reason === undefined ? '' : ` (skipped: ${reason})`}`, () => {
  const machine = Machine.use();
  const hosts = new Map<Name, OtherMachine>();
  const servers = new Map<Name, Server>();
  let etcd: RunningEtcd;
  let file: string;
  let base: string;
  let joinCommand: readonly string[];

  const host = (name: Name): OtherMachine => hosts.get(name) as OtherMachine;
  const server = (name: Name): Server => servers.get(name) as Server;
  const dataDirOf = (name: string) => join(base, name);
  /** The arguments of the data directory and the node name of a server. */
  const own = (name: Name) => ['--data-dir', dataDirOf(name), '--node-name', name];
  const launch = (name: Name, args: readonly string[]): Daemon => {
    const [program, ...enter] = host(name).enter;
    return new Daemon(program, [...enter, oarlock.file, ...oarlock.args, ...args], { env: { HOME: base } });
  };
  const runIn = (name: Name, args: readonly string[]): Promise<Finished> => {
    const [program, ...enter] = host(name).enter;
    return runProgram(program, [...enter, oarlock.file, ...oarlock.args, ...args], { env: { HOME: base } });
  };
  const started = async (name: Name, daemon: Daemon): Promise<Server> => {
    await daemon.line(readyLine);
    servers.get(name)?.api.close();
    const found = {
      name,
      host: host(name),
      dataDir: dataDirOf(name),
      daemon,
      api: await Api.of(join(dataDirOf(name), 'admin.kubeconfig')),
    };
    servers.set(name, found);
    return found;
  };
  const addresses = async (api: Api): Promise<readonly string[]> => {
    const slice = await api.get<EndpointSlice>('/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes');
    return slice.endpoints.flatMap((endpoint) => endpoint.addresses).sort();
  };
  const allAddresses = (which: readonly Name[] = names) => which.map((name) => host(name).there).sort();
  const listed = async (by: Name = 'server-a'): Promise<readonly ListedServer[]> => {
    const { code, stdout, stderr } = await runIn(by, ['server', 'list', '-o', 'json', '--data-dir', dataDirOf(by)]);
    if (code !== 0) throw new Error(stderr);
    return (JSON.parse(stdout) as { readonly servers: readonly ListedServer[] }).servers;
  };
  const keysStatus = async (by: Name = 'server-a'): Promise<KeysStatus> => {
    const { code, stdout, stderr } = await runIn(by, ['keys', 'status', '-o', 'json', '--data-dir', dataDirOf(by)]);
    if (code !== 0) throw new Error(stderr);
    return JSON.parse(stdout) as KeysStatus;
  };

  beforeAll(async () => {
    base = machine.path('servers');
    await mkdir(base);
    machine.undo('servers', () => endProcessesBelow(base));
    for (const name of names) {
      const created = await otherMachine();
      hosts.set(name, created);
      machine.undo(`network namespace of ${name}`, () => created.remove());
    }
    const forwarding = (await readFile('/proc/sys/net/ipv4/ip_forward', 'utf8')).trim();
    await writeFile('/proc/sys/net/ipv4/ip_forward', '1');
    machine.undo('forwarding', () => writeFile('/proc/sys/net/ipv4/ip_forward', forwarding));
    etcd = await startEtcd(machine.path('etcd'), { listen: '0.0.0.0' });
    machine.undo('etcd', () => etcd.stop());
    file = join(base, 'cluster.yaml');
    const { port } = new URL(etcd.endpoint);
    const spec = {
      roles: ['apiserver', 'controllers', 'scheduler', 'kubelet'],
      server: { address: host('server-a').there },
      storage: { use: 'storage-etcd', config: { endpoints: hosts.size === 0 ? [] : [`http://10.255.255.1:${port}`] } },
      encryption: {},
      runtimes: ['runtime-simulated'],
      settings: { kubelet: { port: 0 } },
    };
    // one address of etcd for all namespaces
    await mustRun('ip', ['addr', 'add', '10.255.255.1/32', 'dev', 'lo']);
    machine.undo('address of etcd', () => mustRun('ip', ['addr', 'del', '10.255.255.1/32', 'dev', 'lo']));
    await writeFile(file, JSON.stringify({ apiVersion: 'oarlock.dev/v1', kind: 'Cluster', metadata: { name: 'three' }, spec }));
  });

  it('start with `up --init` and two `server join`, which run at the same time', async () => {
    await started('server-a', launch('server-a', ['up', '--init', '-f', file, ...own('server-a')]));
    const { code, stdout, stderr } = await runIn('server-a', ['token', 'create', '--role', 'server', '--data-dir', dataDirOf('server-a')]);
    expect([code, stderr]).toEqual([0, '']);
    joinCommand = stdout.trim().split(' ').slice(1);
    expect(joinCommand.slice(0, 3)).toEqual(['server', 'join', '--token']);
    await Promise.all((['server-b', 'server-c'] as const).map((name) => started(name, launch(name, [...joinCommand, ...own(name)]))));
  });

  it('are listed with their own addresses, which are the endpoints of the Service kubernetes', async () => {
    const found = await listed();
    expect(found.map(({ name, ready, url }) => ({ name, ready, url }))).toEqual(
      names.map((name) => ({ name, ready: true, url: `https://${host(name).there}:6443` })),
    );
    for (const name of names)
      await until(`${name} sees all addresses`, async () => (await addresses(server(name).api)).join() === allAddresses().join());
    const table = await runIn('server-b', ['server', 'list', '--data-dir', dataDirOf('server-b')]);
    expect(table.stdout).toMatch(/^NAME +STATUS +URL +VERSION +KEYS +STARTED\nserver-a +Ready +https:/);
  });

  it('accept the credentials and tokens of one another', async () => {
    for (const name of names)
      await until(`the service account exists on ${name}`, () =>
        server(name).api.get('/api/v1/namespaces/default/serviceaccounts/default'),
      );
    for (const issuer of names) {
      const created = await server(issuer).api.call('POST', '/api/v1/namespaces/default/serviceaccounts/default/token', {
        body: { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} },
      });
      const { token } = (JSON.parse(created.body) as { readonly status: { readonly token: string } }).status;
      for (const verifier of names) {
        const review = await server(verifier).api.call('POST', '/apis/authentication.k8s.io/v1/tokenreviews', {
          body: { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenReview', spec: { token } },
        });
        expect(JSON.parse(review.body)).toMatchObject({ status: { authenticated: true } });
      }
    }
  });

  it('read Secrets that another server has encrypted', async () => {
    const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'shared' }, stringData: { word: 'open' } };
    expect((await server('server-b').api.call('POST', '/api/v1/namespaces/default/secrets', { body: secret })).status).toBe(201);
    for (const name of names)
      expect(await server(name).api.get('/api/v1/namespaces/default/secrets/shared?resourceVersion=')).toMatchObject({
        data: { word: 'b3Blbg==' },
      });
    const { stdout } = await runProgram('etcdctl', ['--endpoints', etcd.endpoint, 'get', '', '--prefix'], { env: { ETCDCTL_API: '3' } });
    expect(stdout).toContain('/registry/secrets/default/shared');
    expect(stdout).toContain('k8s:enc:aesgcm:v1:generated:');
    expect(stdout).not.toContain('PRIVATE KEY');
  });

  it('run each controller once: a Deployment of 10 makes 10 pods', async () => {
    const labels = { app: 'ten' };
    const template = { metadata: { labels }, spec: { containers: [{ name: 'main', image: 'any' }] } };
    const body = {
      ...{ apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: 'ten' } },
      spec: { replicas: 10, selector: { matchLabels: labels }, template },
    };
    const uids = new Set<string>();
    const watched = server('server-c').api;
    expect((await server('server-b').api.call('POST', '/apis/apps/v1/namespaces/default/deployments', { body })).status).toBe(201);
    await until('10 pods run', async () => {
      const { items } = await watched.get<{ readonly items: readonly PodItem[] }>('/api/v1/namespaces/default/pods?labelSelector=app=ten');
      for (const { metadata } of items) uids.add(metadata.uid ?? '');
      return items.filter(({ status }) => status.phase === 'Running').length === 10;
    });
    const { items: replicaSets } = await watched.get<{ readonly items: readonly Item[] }>(
      '/apis/apps/v1/namespaces/default/replicasets?labelSelector=app=ten',
    );
    expect(replicaSets).toHaveLength(1);
    const created = () =>
      watched.get<{ readonly items: readonly Item[] }>(
        '/api/v1/namespaces/default/events?fieldSelector=reason=SuccessfulCreate,involvedObject.kind=ReplicaSet',
      );
    await until('the creations are reported', async () => (await created()).items.length >= 10);
    expect((await created()).items).toHaveLength(10);
    expect(uids.size).toBe(10);
  });

  it('write less than 5 revisions a second at rest', async () => {
    const revision = async (): Promise<number> => {
      const list = await server('server-a').api.get<Item>('/api/v1/namespaces?limit=1');
      return Number(list.metadata.resourceVersion);
    };
    // the Deployment of the previous step comes to rest
    await until('10 quiet seconds', async () => {
      const before = await revision();
      await until(
        '2 seconds',
        (
          (began) => () =>
            Promise.resolve(performance.now() - began > 2_000)
        )(performance.now()),
      );
      return (await revision()) - before < 10;
    });
    const [before, began] = [await revision(), performance.now()];
    await until('20 seconds', () => Promise.resolve(performance.now() - began > 20_000));
    const perSecond = ((await revision()) - before) / ((performance.now() - began) / 1000);
    console.log(`three servers and nodes at rest: ${perSecond.toFixed(2)} revisions a second`);
    expect(perSecond).toBeLessThan(5);
  });

  it('reject a server with keys of its own, with the command that joins it', async () => {
    const own = dataDirOf('foreign');
    const rejectedNew = await runIn('server-b', ['up', '-f', file, '--data-dir', own, '--port', '6444', '--node-name', 'foreign']);
    expect(rejectedNew.code).toBe(1);
    expect(rejectedNew.stderr).toMatch(
      /the storage belongs to the cluster three, and this server does not: this data directory has no keys of it\./,
    );
    expect(rejectedNew.stderr).toMatch(
      / {2}oarlock server join --token TOKEN --discovery-token-ca-cert-hash sha256:[0-9a-f]{64} https:\/\/10\.214\.\d+\.2:6443\n/,
    );
    expect(await readdir(own)).not.toContain('pki');
    const alone = join(base, 'alone.yaml');
    await writeFile(
      alone,
      JSON.stringify({ apiVersion: 'oarlock.dev/v1', kind: 'Cluster', spec: { roles: ['apiserver'], server: { port: 6445 } } }),
    );
    const other = launch('server-b', ['up', '-f', alone, '--data-dir', own, '--node-name', 'foreign']);
    await other.line(readyLine);
    await other.stop();
    const rejected = await runIn('server-b', ['up', '-f', file, '--data-dir', own, '--port', '6444', '--node-name', 'foreign']);
    expect(rejected.code).toBe(1);
    expect(rejected.stderr).toMatch(
      /the CA is sha256:[0-9a-f]{64}, that of the cluster is sha256:[0-9a-f]{64}; the service account signing key is /,
    );
  });

  it('reject a join with a wrong token, key or CA hash', async () => {
    const rejectionOf = async (change: (args: string[]) => void): Promise<string> => {
      const args = [...joinCommand];
      change(args);
      const { code, stderr } = await runIn('server-b', [...args, '--data-dir', machine.path('rejected'), '--node-name', 'foreign']);
      return `${code} ${stderr.trim()}`;
    };
    const [token, hash] = [joinCommand.indexOf('--token') + 1, joinCommand.indexOf('--discovery-token-ca-cert-hash') + 1];
    const [id, secret, key] = (joinCommand[token] ?? '').split('.');
    const setToken = (text: string) => (args: string[]) => void (args[token] = text);
    expect(await rejectionOf(setToken(`${id}.${secret}.${'A'.repeat(43)}`))).toMatch(/^1 the token does not open the keys of /);
    expect(await rejectionOf(setToken(`${id}.${'a'.repeat(16)}.${key}`))).toMatch(/^1 .* rejects the token: it is unknown or has expired/);
    expect(await rejectionOf(setToken(`${id}.${secret}`))).toMatch(/^2 --token is a token for nodes/);
    expect(await rejectionOf((args) => void (args[hash] = `sha256:${'0'.repeat(64)}`))).toMatch(
      /^1 the CA of .* does not match --discovery-token-ca-cert-hash/,
    );
    const node = await runIn('server-a', ['token', 'create', '--data-dir', dataDirOf('server-a')]);
    const nodeToken = /--token (\S+)/.exec(node.stdout)?.[1] ?? '';
    expect(await rejectionOf(setToken(`${nodeToken}.${key}`))).toMatch(/^1 .* rejects the server: .*forbidden/i);
  });

  it('rotate the service account key on all servers before it signs, while they run', async () => {
    const before = await keysStatus();
    expect(Object.keys(before.expirations)).toEqual(expect.arrayContaining([...(before.identity['ca'] ?? [])]));
    const rotated = await runIn('server-b', ['keys', 'rotate', '--data-dir', dataDirOf('server-b')]);
    expect([rotated.code, rotated.stderr]).toEqual([0, '']);
    const after = await keysStatus();
    expect(after.generation).toBe(before.generation + 2);
    expect(after.identity['serviceAccountKeys']?.[0]).not.toBe(before.identity['serviceAccountKeys']?.[0]);
    expect(after.identity['serviceAccountKeys']).toContain(before.identity['serviceAccountKeys']?.[0]);
    expect((await listed()).map(({ keysGeneration }) => keysGeneration)).toEqual([after.generation, after.generation, after.generation]);
    const keys = await Promise.all(names.map((name) => readFile(join(dataDirOf(name), 'pki', 'service-account.key'), 'utf8')));
    expect(new Set(keys).size).toBe(1);
    const created = await server('server-c').api.call('POST', '/api/v1/namespaces/default/serviceaccounts/default/token', {
      body: { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} },
    });
    const { token } = (JSON.parse(created.body) as { readonly status: { readonly token: string } }).status;
    const review = await server('server-a').api.call('POST', '/apis/authentication.k8s.io/v1/tokenreviews', {
      body: { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenReview', spec: { token } },
    });
    expect(JSON.parse(review.body)).toMatchObject({ status: { authenticated: true } });
  });

  it('rotate the encryption key while they run', async () => {
    const run = async (...args: string[]) => {
      const done = await runIn('server-c', ['keys', 'encryption', ...args, '--data-dir', dataDirOf('server-c')]);
      return `${done.code} ${done.stderr}`;
    };
    expect(await run('add')).toBe('0 ');
    const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'later' }, stringData: { word: 'new' } };
    await server('server-a').api.call('POST', '/api/v1/namespaces/default/secrets', { body: secret });
    for (const name of names)
      expect(await server(name).api.get('/api/v1/namespaces/default/secrets/later')).toMatchObject({ data: { word: 'bmV3' } });
    expect(await run('end')).toMatch(/^1 \/registry\/secrets\/.* is still encrypted with a former key/);
    const { items } = await server('server-b').api.get<{ readonly items: readonly Item[] }>('/api/v1/secrets');
    for (const { metadata } of items) {
      const path = `/api/v1/namespaces/${metadata.namespace}/secrets/${metadata.name}`;
      // a controller may change it between the two requests
      await until(`${path} is written`, async () =>
        server('server-b').api.json('PUT', path, { body: await server('server-b').api.get(path) }),
      );
    }
    expect(await run('end')).toBe('0 ');
    for (const name of names) {
      const files = await readdir(join(dataDirOf(name), 'plugins', 'apiserver', 'encryption'));
      expect(files).toEqual([expect.stringMatching(/^generated-\d{8}T\d{9}Z\.key$/)]);
      expect(await server(name).api.get('/api/v1/namespaces/default/secrets/shared')).toMatchObject({ data: { word: 'b3Blbg==' } });
    }
  });

  it('reject the next CA until every running server trusts it', async () => {
    const step = async (name: string) => {
      const done = await runIn('server-a', ['keys', 'ca', name, '--data-dir', dataDirOf('server-a')]);
      return `${done.code} ${done.stderr}`;
    };
    expect(await step('add')).toBe('0 ');
    expect(await step('use')).toMatch(/^2 server-a, server-b, server-c do not use the keys of the previous step yet: restart each of them/);
  });

  it('replace the CA in three steps, with a restart of one server after another', async () => {
    const step = async (name: string) => {
      const done = await runIn('server-c', ['keys', 'ca', name, '--data-dir', dataDirOf('server-c')]);
      return `${done.code} ${done.stderr}`;
    };
    const restartAll = async () => {
      for (const name of names) {
        expect(await server(name).daemon.stop()).toBe(0);
        const args = name === 'server-a' ? ['up', '--init', '-f', file] : ['server', 'join'];
        await started(name, launch(name, [...args, ...own(name)]));
      }
    };
    const [first, second] = (await keysStatus()).identity['ca'] ?? [];
    await restartAll();
    expect(await step('use')).toBe('0 ');
    expect(await step('end')).toMatch(/^2 server-a, server-b, server-c do not use the keys of the previous step yet/);
    await restartAll();
    expect(await step('end')).toBe('0 ');
    await restartAll();
    expect((await keysStatus('server-b')).identity).toMatchObject({ ca: [second], removedCa: [first] });
    for (const name of names) await server(name).api.get('/api/v1/namespaces/default');
    await until('all addresses return', async () => (await addresses(server('server-a').api)).join() === allAddresses().join());
  });

  it('lose the address of a killed server, and serve without it', async () => {
    const began = performance.now();
    await server('server-b').daemon.stop('SIGKILL');
    await until(
      'the address leaves the endpoints',
      async () => (await addresses(server('server-a').api)).join() === allAddresses(['server-a', 'server-c']).join(),
    );
    const seconds = (performance.now() - began) / 1000;
    console.log(`the address of the killed server left the endpoints after ${seconds.toFixed(1)} s`);
    const removed = async (name: string) => {
      const done = await runIn('server-a', ['server', 'remove', name, '--data-dir', dataDirOf('server-a')]);
      return `${done.code} ${done.stderr}`.trim();
    };
    expect(await removed('server-c')).toBe('1 the server server-c is running: stop it first');
    expect(await removed('nobody')).toMatch(/^2 there is no server nobody/);
    await until('the lease has expired', async () => (await listed()).find(({ name }) => name === 'server-b')?.ready === false);
    expect(await removed('server-b')).toBe('0');
    expect((await listed()).map(({ name }) => name)).toEqual(['server-a', 'server-c']);
  });

  it('return after a restart with the keys of rotations that it missed', async () => {
    const rotated = await runIn('server-a', ['keys', 'rotate', '--data-dir', dataDirOf('server-a')]);
    expect([rotated.code, rotated.stderr]).toEqual([0, '']);
    // the same command as for the first join, without a token
    await started('server-b', launch('server-b', ['server', 'join', ...own('server-b')]));
    const keys = await Promise.all(names.map((name) => readFile(join(dataDirOf(name), 'pki', 'service-account.key'), 'utf8')));
    expect(new Set(keys).size).toBe(1);
    await until('its address returns', async () => (await addresses(server('server-a').api)).join() === allAddresses().join());
    for (const name of names) await server(name).daemon.stop();
  });
});

describe.skipIf(reason !== undefined)(`plain \`up\` on an empty etcd${reason === undefined ? '' : ` (skipped: ${reason})`}`, () => {
  const machine = Machine.use();

  it('starts one of three servers that start at the same time and rejects the others', async () => {
    const etcd = await machine.etcd();
    const spec = {
      roles: ['apiserver'],
      storage: { use: 'storage-etcd', config: { endpoints: [etcd.endpoint], prefix: '/concurrent' } },
    };
    const clusters = await Promise.all(names.map((nodeName) => machine.prepare({ spec, nodeName })));
    const outcomes = await Promise.all(
      clusters.map(async (cluster) => {
        const daemon = cluster.launch();
        return Promise.race([daemon.line(readyLine).then(() => 'ready' as const), daemon.exit.then((code) => `${code} ${daemon.output}`)]);
      }),
    );
    expect(outcomes.filter((outcome) => outcome === 'ready')).toHaveLength(1);
    for (const outcome of outcomes) if (outcome !== 'ready') expect(outcome).toMatch(/^1 the storage belongs to the cluster e2e/);
  });

  it('rejects --init with a storage that cannot be shared', async () => {
    const cluster = await machine.prepare({ spec: { roles: ['apiserver'], storage: 'storage-memory' }, args: ['--init'] });
    const { code, stderr } = await runOarlock(cluster.upArgs);
    expect([code, stderr]).toEqual([1, expect.stringContaining('--init: storage-memory serves one API server only')]);
  });
});

import { expect, it } from 'vitest';
import { until } from '../../harness/until.ts';
import type { NodeWorkbench, Spec } from '../node-workbench.ts';

/** Volumes of objects, of the pod itself, and empty ones; a title stands for a family of behaviors. */
export function volumeBehaviours(bench: NodeWorkbench): void {
  const base64 = (text: string | Buffer) => Buffer.from(text).toString('base64');

  const object = async (kind: 'configMap' | 'secret', data: Readonly<Record<string, string>>, more: Spec = {}): Promise<string> => {
    const name = bench.name(kind.toLowerCase());
    const encoded = kind === 'secret' ? Object.fromEntries(Object.entries(data).map(([key, value]) => [key, base64(value)])) : data;
    await bench.create(bench.at(`${kind.toLowerCase()}s`), { metadata: { name }, data: encoded, ...more });
    return name;
  };
  const replace = (kind: 'configMap' | 'secret', name: string, change: Spec) =>
    bench.merge(`${bench.at(`${kind.toLowerCase()}s`)}/${name}`, change);

  /** A volume of a ConfigMap or Secret, plain or projected. */
  const volumeOf = (kind: 'configMap' | 'secret', projected: boolean, name: string, more: Spec = {}): Spec => {
    const { defaultMode, ...rest } = more;
    const mode = defaultMode !== undefined && { defaultMode };
    if (projected) return { projected: { sources: [{ [kind]: { name, ...rest } }], ...mode } };
    return { [kind]: { [kind === 'secret' ? 'secretName' : 'name']: name, ...rest, ...mode } };
  };
  const pod = (script: string, volumes: Readonly<Record<string, Spec>>, more: Spec = {}, container: Spec = {}): Spec => ({
    containers: [
      bench.container(script, { volumeMounts: Object.keys(volumes).map((name) => ({ name, mountPath: `/v/${name}` })), ...container }),
    ],
    volumes: Object.entries(volumes).map(([name, source]) => ({ name, ...source })),
    ...more,
  });
  const show = (path: string) => `stat -L -c '%a %u %g' ${path}; cat ${path}`;
  const follow = (name: string, script: string, wanted: string) =>
    until(`${name} shows ${wanted}`, async () => (await bench.exec(name, 'sh', '-c', script)).includes(wanted), {
      everyMs: 200,
    });

  for (const [kind, title, projected] of [
    ['configMap', 'ConfigMap', false],
    ['secret', 'Secrets', false],
    ['configMap', 'Projected configMap', true],
    ['secret', 'Projected secret', true],
  ] as const) {
    const items = { items: [{ key: 'data-2', path: 'path/to/data-2' }] };
    const data = { 'data-1': 'value-1', 'data-2': 'value-2', 'data-3': 'value-3' };
    const nonRoot = { securityContext: { runAsUser: 1000 } };

    it(`${title} should be consumable from pods in volume`, async () => {
      const volume = volumeOf(kind, projected, await object(kind, data));
      expect(await bench.outputOf(pod(show('/v/a/data-1'), { a: volume }))).toBe('644 0 0\nvalue-1');
    });
    it(`${title} should be consumable from pods in volume with defaultMode set`, async () => {
      const volume = volumeOf(kind, projected, await object(kind, data), { defaultMode: 0o400 });
      expect(await bench.outputOf(pod(show('/v/a/data-1'), { a: volume }))).toBe('400 0 0\nvalue-1');
    });
    it(`${title} should be consumable from pods in volume as non-root with defaultMode and fsGroup set`, async () => {
      const volume = volumeOf(kind, projected, await object(kind, data), { defaultMode: 0o440 });
      const context = { securityContext: { runAsUser: 1000, fsGroup: 1001 } };
      expect(await bench.outputOf(pod(show('/v/a/data-1'), { a: volume }, context))).toBe('440 0 1001\nvalue-1');
    });
    it(`${title} should be consumable from pods in volume as non-root`, async () => {
      const volume = volumeOf(kind, projected, await object(kind, data));
      expect(await bench.outputOf(pod('cat /v/a/data-1', { a: volume }, nonRoot))).toBe('value-1');
    });
    it(`${title} should be consumable from pods in volume with mappings`, async () => {
      const volume = volumeOf(kind, projected, await object(kind, data), items);
      expect(await bench.outputOf(pod(`${show('/v/a/path/to/data-2')}; ls /v/a`, { a: volume }))).toBe('644 0 0\nvalue-2path\n');
    });
    it(`${title} should be consumable from pods in volume with mappings as non-root`, async () => {
      const volume = volumeOf(kind, projected, await object(kind, data), items);
      expect(await bench.outputOf(pod('cat /v/a/path/to/data-2', { a: volume }, nonRoot))).toBe('value-2');
    });
    it(`${title} should be consumable from pods in volume with mappings and Item mode set`, async () => {
      const volume = volumeOf(kind, projected, await object(kind, data), { items: [{ ...items.items[0], mode: 0o400 }] });
      expect(await bench.outputOf(pod(show('/v/a/path/to/data-2'), { a: volume }))).toBe('400 0 0\nvalue-2');
    });
    it(`${title} should be consumable in multiple volumes in the same pod`, async () => {
      const volume = volumeOf(kind, projected, await object(kind, data));
      expect(await bench.outputOf(pod('cat /v/a/data-1 /v/b/data-1', { a: volume, b: volume }))).toBe('value-1value-1');
    });
    it(`${title} updates should be reflected in volume`, async () => {
      const name = await object(kind, data);
      const { metadata } = await bench.start(pod('sleep 600', { a: volumeOf(kind, projected, name) }));
      await replace(kind, name, { data: { 'data-1': kind === 'secret' ? base64('changed') : 'changed' } });
      await follow(metadata.name, 'cat /v/a/data-1', 'changed');
      bench.forget(metadata.name);
    });
    it(`${title} optional updates should be reflected in volume`, async () => {
      const [removed, updated, created] = [await object(kind, data), await object(kind, data), bench.name('later')];
      const volume = (name: string) => volumeOf(kind, projected, name, { optional: true });
      const { metadata } = await bench.start(
        pod('sleep 600', { removed: volume(removed), updated: volume(updated), created: volume(created) }),
      );
      expect(await bench.exec(metadata.name, 'sh', '-c', 'cat /v/removed/data-1; ls /v/created')).toBe('value-1');
      await bench.remove(`${bench.at(`${kind.toLowerCase()}s`)}/${removed}`);
      const encode = (text: string) => (kind === 'secret' ? base64(text) : text);
      await replace(kind, updated, { data: { 'data-1': null, 'data-3': encode('value-3b') } });
      await bench.create(bench.at(`${kind.toLowerCase()}s`), { metadata: { name: created }, data: { 'data-1': encode('new') } });
      await follow(metadata.name, 'ls /v/removed/data-1 2>&1 || true', 'No such file');
      await follow(metadata.name, 'cat /v/updated/data-3; ls /v/updated', 'value-3b');
      await follow(metadata.name, 'cat /v/created/data-1 2>&1 || true', 'new');
      expect(await bench.exec(metadata.name, 'ls', '/v/updated')).toBe('data-2\ndata-3\n');
      bench.forget(metadata.name);
    });
  }

  it('ConfigMap binary data should be reflected in volume', async () => {
    const bytes = Buffer.from([0xde, 0xca, 0xfe, 0xba, 0xd0, 0xfe, 0xff]);
    const name = await object('configMap', { text: 'value-1' }, { binaryData: { 'dump.bin': base64(bytes) } });
    const volume = volumeOf('configMap', false, name);
    expect(await bench.outputOf(pod('cat /v/a/text; hexdump -v -e \'/1 "%02x"\' /v/a/dump.bin', { a: volume }))).toBe(
      'value-1decafebad0feff',
    );
  });
  for (const kind of ['configMap', 'secret'] as const)
    it(`${kind === 'secret' ? 'Secrets' : 'ConfigMap'} should be immutable if \`immutable\` field is set`, async () => {
      const value = (text: string) => (kind === 'secret' ? base64(text) : text);
      const name = await object(kind, { a: 'b' });
      await replace(kind, name, { data: { a: value('c') } });
      await replace(kind, name, { immutable: true });
      for (const change of [{ data: { a: value('d') } }, { immutable: false }])
        await expect(replace(kind, name, change)).rejects.toThrow(/422/);
      await replace(kind, name, { metadata: { labels: { still: 'mutable' } } });
      await bench.remove(`${bench.at(`${kind.toLowerCase()}s`)}/${name}`);
    });
  it('Secrets should be able to mount in a volume regardless of a different secret existing with same name in different namespace', async () => {
    const name = await object('secret', { 'data-1': 'ours' });
    const elsewhere = bench.name('elsewhere');
    await bench.create('/api/v1/namespaces', { metadata: { name: elsewhere } });
    await bench.create(bench.at('secrets', elsewhere), { metadata: { name }, data: { 'data-1': base64('theirs') } });
    expect(await bench.outputOf(pod('cat /v/a/data-1', { a: volumeOf('secret', false, name) }))).toBe('ours');
  });

  for (const [title, projected] of [
    ['Downward API volume', false],
    ['Projected downwardAPI', true],
  ] as const) {
    const downward = (items: readonly Spec[], more: Spec = {}): Spec =>
      projected ? { projected: { sources: [{ downwardAPI: { items } }], ...more } } : { downwardAPI: { items, ...more } };
    const field = (path: string, fieldPath: string, more: Spec = {}): Spec => ({ path, fieldRef: { fieldPath }, ...more });
    const resource = (name: string): Spec => ({ path: 'amount', resourceFieldRef: { containerName: 'main', resource: name } });

    it(`${title} should provide podname only, and set modes on files`, async () => {
      const items = [field('podname', 'metadata.name'), field('item', 'metadata.namespace', { mode: 0o440 })];
      const { log, pod: started } = await bench.run(
        pod(`${show('/v/a/podname')}; echo; ${show('/v/a/item')}`, { a: downward(items, { defaultMode: 0o400 }) }),
      );
      expect(log).toBe(`400 0 0\n${started.metadata.name}\n440 0 0\n${bench.namespace}`);
    });
    for (const what of ['labels', 'annotations'] as const)
      it(`${title} should update ${what} on modification`, async () => {
        const spec = pod('sleep 600', { a: downward([field(what, `metadata.${what}`)]) });
        const { metadata } = await bench.start(spec, { [what]: { key1: 'value1', key2: 'value2' } });
        expect(await bench.exec(metadata.name, 'grep', 'key', `/v/a/${what}`)).toBe('key1="value1"\nkey2="value2"\n');
        await bench.merge(`${bench.at('pods')}/${metadata.name}`, { metadata: { [what]: { key3: 'value3' } } });
        await follow(metadata.name, `cat /v/a/${what}`, '\nkey3="value3"');
        bench.forget(metadata.name);
      });
    const resources = { limits: { cpu: '1250m', memory: '64Mi' }, requests: { cpu: '250m', memory: '32Mi' } };
    for (const [name, wanted] of Object.entries({
      'limits.cpu': '2',
      'requests.cpu': '1',
      'limits.memory': String(64 << 20),
      'requests.memory': String(32 << 20),
    }))
      it(`${title} should provide container's ${name}`, async () => {
        expect(await bench.outputOf(pod('cat /v/a/amount', { a: downward([resource(name)]) }, {}, { resources }))).toBe(wanted);
      });
    it(`${title} should provide node allocatable as default limit if the limit is not set`, async () => {
      const { status } = await bench.api.get<{ readonly status: { readonly allocatable: Readonly<Record<string, string>> } }>(
        '/api/v1/nodes/node-a',
      );
      expect(await bench.outputOf(pod('cat /v/a/amount', { a: downward([resource('limits.cpu')]) }))).toBe(status.allocatable['cpu']);
      const memory = Number.parseInt(status.allocatable['memory'] ?? '', 10) * (status.allocatable['memory']?.endsWith('Ki') ? 1024 : 1);
      expect(await bench.outputOf(pod('cat /v/a/amount', { a: downward([resource('limits.memory')]) }))).toBe(String(memory));
    });
  }

  it('Projected combined should project all components that make up the projection API', async () => {
    const [configMap, secret] = [await object('configMap', { c: 'from-map' }), await object('secret', { s: 'from-secret' })];
    const sources = [
      { downwardAPI: { items: [{ path: 'podname', fieldRef: { fieldPath: 'metadata.name' } }] } },
      { secret: { name: secret, items: [{ key: 's', path: 'dir/secret' }] } },
      { configMap: { name: configMap, items: [{ key: 'c', path: 'dir/map' }] } },
    ];
    const { log, pod: started } = await bench.run(
      pod('cat /v/all/podname /v/all/dir/secret /v/all/dir/map', { all: { projected: { sources } } }),
    );
    expect(log).toBe(`${started.metadata.name}from-secretfrom-map`);
  });

  // bits beyond the permissions, such as the sticky bit of tmpfs, are kept
  for (const [medium, type, mode] of [
    ['', '(overlayfs|ext2/ext3|xfs|btrfs|tmpfs|UNKNOWN)', '777'],
    ['Memory', 'tmpfs', '1777'],
  ] as const) {
    const called = medium === '' ? 'default' : 'tmpfs';
    const volume = { a: { emptyDir: { medium } } };
    it(`EmptyDir volumes volume on ${called} should have the correct mode`, async () => {
      expect(await bench.outputOf(pod("stat -c '%a %F' /v/a; stat -f -c %T /v/a", volume))).toMatch(
        new RegExp(`^${mode} directory\n${type}`),
      );
    });
    for (const user of ['root', 'non-root'])
      for (const mode of ['644', '666', '777'])
        it(`EmptyDir volumes should support (${user},0${mode},${called})`, async () => {
          const script = `umask 0; echo content > /v/a/file; chmod ${mode} /v/a/file; stat -c '%a %u' /v/a/file; cat /v/a/file`;
          const uid = user === 'root' ? 0 : 1001;
          expect(await bench.outputOf(pod(script, volume, { securityContext: { runAsUser: uid } }))).toBe(`${mode} ${uid}\ncontent\n`);
        });
  }
  it('EmptyDir volumes pod should support shared volumes between containers', async () => {
    const volumeMounts = [{ name: 'shared', mountPath: '/shared' }];
    const { metadata } = await bench.start({
      containers: [
        bench.container('sleep 600', { volumeMounts }),
        bench.container('echo hello from the other > /shared/file; sleep 600', { name: 'other', volumeMounts }),
      ],
      volumes: [{ name: 'shared', emptyDir: {} }],
    });
    await follow(metadata.name, 'cat /shared/file 2>&1 || true', 'hello from the other');
    bench.forget(metadata.name);
  });
  it('EmptyDir wrapper volumes should not conflict', async () => {
    const volumes = {
      secret: volumeOf('secret', false, await object('secret', { s: 'secret' })),
      map: volumeOf('configMap', false, await object('configMap', { c: 'map' })),
      empty: { emptyDir: {} },
    };
    expect(await bench.outputOf(pod('cat /v/secret/s /v/map/c; ls /v/empty', volumes))).toBe('secretmap');
  });
  it('EmptyDir wrapper volumes should not cause race condition when used for configmaps', async () => {
    const names = await Promise.all(Array.from({ length: 20 }, (_, index) => object('configMap', { [`data-${index}`]: `value-${index}` })));
    const volumes = Object.fromEntries(names.map((name, index) => [`m${index}`, volumeOf('configMap', false, name)]));
    const wanted = names.map((_, index) => `value-${index}`).join('');
    const all = names.map((_, index) => `/v/m${index}/data-${index}`).join(' ');
    for (const log of await Promise.all(Array.from({ length: 3 }, () => bench.outputOf(pod(`cat ${all}`, volumes)))))
      expect(log).toBe(wanted);
  });

  const subPath = (script: string, volume: Spec, mounts: Spec): Spec => ({
    containers: [bench.container(script, { volumeMounts: [{ name: 'v', ...mounts }] })],
    volumes: [{ name: 'v', ...volume }],
  });
  it('Subpath Atomic writer volumes should support subpaths with configmap pod', async () => {
    const volume = volumeOf('configMap', false, await object('configMap', { key: 'sub' }));
    expect(await bench.outputOf(subPath('cat /file', volume, { mountPath: '/file', subPath: 'key' }))).toBe('sub');
  });
  it('Subpath Atomic writer volumes should support subpaths with configmap pod with mountPath of existing file', async () => {
    const volume = volumeOf('configMap', false, await object('configMap', { key: 'sub' }));
    expect(await bench.outputOf(subPath('cat /etc/resolv.conf', volume, { mountPath: '/etc/resolv.conf', subPath: 'key' }))).toBe('sub');
  });
  it('Subpath Atomic writer volumes should support subpaths with downward pod', async () => {
    const volume = { downwardAPI: { items: [{ path: 'dir/name', fieldRef: { fieldPath: 'metadata.namespace' } }] } };
    expect(await bench.outputOf(subPath('cat /d/name', volume, { mountPath: '/d', subPath: 'dir' }))).toBe(bench.namespace);
  });
  it('Subpath Atomic writer volumes should support subpaths with projected pod', async () => {
    const sources = [{ secret: { name: await object('secret', { key: 'sub' }), items: [{ key: 'key', path: 'x/y' }] } }];
    expect(await bench.outputOf(subPath('cat /d/y', { projected: { sources } }, { mountPath: '/d', subPath: 'x' }))).toBe('sub');
  });
  it('Subpath Atomic writer volumes should support subpaths with secret pod', async () => {
    const volume = volumeOf('secret', false, await object('secret', { key: 'sub' }));
    expect(await bench.outputOf(subPath('cat /file', volume, { mountPath: '/file', subPath: 'key' }))).toBe('sub');
  });
}

import type { KubeObject } from '@oarlock/api/object';
import { resource, type Resource } from '@oarlock/api/resource';
import type { CustomResourceDefinition, JSONSchemaProps } from '@oarlock/api/types/apiextensions-v1';
import { TestServer, type Watching } from './pipeline-fixture.ts';

export const definitions = 'customresourcedefinitions.apiextensions.k8s.io';
type Version = CustomResourceDefinition['spec']['versions'][number];

export const anything: JSONSchemaProps = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true };

export interface Sketch {
  readonly group?: string;
  readonly kind?: string;
  readonly scope?: 'Namespaced' | 'Cluster';
  readonly schema?: JSONSchemaProps;
  readonly versions?: readonly Partial<Version>[];
  readonly version?: Partial<Version>;
  readonly names?: Partial<CustomResourceDefinition['spec']['names']>;
  readonly conversion?: CustomResourceDefinition['spec']['conversion'];
  readonly annotations?: Readonly<Record<string, string>>;
}

/** Returns a definition of widgets by default. */
export function definition(sketch: Sketch = {}): CustomResourceDefinition {
  const { group = 'example.com', kind = 'Widget', scope = 'Namespaced', schema = anything, names = {}, annotations } = sketch;
  const plural = names.plural ?? `${kind.toLowerCase()}s`;
  const versions = (sketch.versions ?? [{ name: 'v1', ...sketch.version }]).map(
    (version, i): Version => ({
      name: `v${i + 1}`,
      served: true,
      storage: i === 0,
      schema: { openAPIV3Schema: schema },
      ...version,
    }),
  );
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${group}`, ...(annotations && { annotations }) },
    spec: {
      group,
      scope,
      names: { kind, plural, ...names },
      versions,
      ...(sketch.conversion && { conversion: sketch.conversion }),
    },
  };
}

export function resourceOf({ spec }: CustomResourceDefinition, version = spec.versions[0]?.name ?? 'v1'): Resource {
  return resource(spec.group, version, spec.names.plural, spec.names.kind, spec.scope === 'Namespaced');
}

/** Creates a definition and waits until it is established. */
export async function establish(server: TestServer, created: CustomResourceDefinition): Promise<Resource> {
  await server.create(definitions, created);
  await untilCondition(server, created.metadata?.name ?? '', 'Established', 'True');
  return resourceOf(created);
}

/** Returns the definition when one of its conditions has the status. */
export async function untilCondition(server: TestServer, name: string, type: string, status: string): Promise<CustomResourceDefinition> {
  const watch = await server.watch(definitions, { fieldSelector: `metadata.name=${name}` });
  try {
    return await untilSeen(
      watch,
      (object) =>
        (object as CustomResourceDefinition).status?.conditions?.some((each) => each.type === type && each.status === status) === true,
    );
  } finally {
    await watch.close();
  }
}

export async function untilSeen<T extends KubeObject>(watch: Watching, wanted: (object: KubeObject, type: string) => boolean): Promise<T> {
  for (;;) {
    const frame = await watch.next();
    if (frame === undefined) throw new Error('the watch ended');
    if (wanted(frame.item.object, frame.type)) return frame.item.object as T;
  }
}

/** Returns an object of a definition's kind. */
export function custom(of: Resource, name: string, more: Readonly<Record<string, unknown>> = {}): KubeObject {
  return { apiVersion: `${of.group}/${of.version}`, kind: of.kind, metadata: { name }, ...more };
}

export const started: TestServer[] = [];
export async function startServer(options: Parameters<typeof TestServer.start>[0] = {}): Promise<TestServer> {
  const server = await TestServer.start(options);
  started.push(server);
  return server;
}
export async function stopServers(): Promise<void> {
  await Promise.all(started.splice(0).map((server) => server.stop()));
}

import { capitalize } from './capitalize.ts';
import { camel, scopeOf } from './operation-names.ts';
import { pathItem, type Operation } from './path-item.ts';
import type { DocumentContext, PathEntry } from './paths.ts';
import type { Json } from './definition-names.ts';

const mediaTypes = ['application/json', 'application/yaml', 'application/vnd.kubernetes.protobuf'];
const versionMembers = ['major', 'minor', 'gitVersion', 'gitCommit', 'gitTreeState', 'buildDate', 'goVersion', 'compiler', 'platform'];
const optionalVersionMembers = ['emulationMajor', 'emulationMinor', 'minCompatibilityMajor', 'minCompatibilityMinor'];

/** Returns the definition of the body of `/version`. */
function versionInfo(version: DocumentContext['version']): Json {
  const member = (isRequired: boolean) => ({ type: 'string', ...(version === 3 && isRequired && { default: '' }) });
  return {
    description: 'The version of the API server.',
    type: 'object',
    required: versionMembers,
    properties: Object.fromEntries([
      ...versionMembers.map((name) => [name, member(true)] as const),
      ...optionalVersionMembers.map((name) => [name, member(false)] as const),
    ]),
  };
}

interface DiscoveryOperation {
  readonly id: string;
  readonly tag: string;
  readonly description: string;
  readonly schema: Json;
  readonly types?: readonly string[];
  /** By default the media types of the response. */
  readonly consumes?: readonly string[];
}
const read = ({ id, tag, description, schema, types = mediaTypes, consumes = types }: DiscoveryOperation): Operation => ({
  method: 'get',
  id,
  tag,
  description,
  consumes,
  parameters: [],
  response: { schema, types },
  codes: [200],
});

/** Returns the path of the resources of a group and version, such as `/apis/apps/v1/`. */
export function groupVersionPath(group: string, groupVersion: string, context: DocumentContext): PathEntry {
  const { tag, title } = scopeOf(group, groupVersion);
  const list = { group: '', version: 'v1', kind: 'APIResourceList' };
  const schema = context.definitions.refToKind('meta/v1.APIResourceList', list);
  const operation = read({ id: `get${title}APIResources`, tag, description: 'get available resources', schema });
  const path = group === '' ? `/api/${groupVersion}/` : `/apis/${group}/${groupVersion}/`;
  return [path, pathItem([operation], context.parameters, context.version)];
}

/** Returns the path of a group, such as `/apis/apps/`; of the versions of the core group for ''. */
export function groupPath(group: string, context: DocumentContext): PathEntry {
  const { definitions } = context;
  const kindRef = (kind: string) => definitions.refToKind(`meta/v1.${kind}`, { group: '', version: 'v1', kind });
  const operation =
    group === ''
      ? read({ id: 'getCoreAPIVersions', tag: 'core', description: 'get available API versions', schema: kindRef('APIVersions') })
      : read({
          id: `get${capitalize(camel(group))}APIGroup`,
          tag: camel(group),
          description: 'get information of a group',
          schema: kindRef('APIGroup'),
        });
  return [group === '' ? '/api/' : `/apis/${group}/`, pathItem([operation], context.parameters, context.version)];
}

/** The paths that belong to no group, by the name of their document. */
const otherPaths: Readonly<Record<string, (context: DocumentContext) => DiscoveryOperation>> = {
  apis: ({ definitions }) => ({
    id: 'getAPIVersions',
    tag: 'apis',
    description: 'get available API versions',
    schema: definitions.refToKind('meta/v1.APIGroupList', { group: '', version: 'v1', kind: 'APIGroupList' }),
  }),
  version: ({ definitions, version }) => ({
    id: 'getCodeVersion',
    tag: 'version',
    description: 'get the version information for this server',
    schema: definitions.refToNamed('io.k8s.apimachinery.pkg.version.Info', () => versionInfo(version)),
    types: ['application/json'],
  }),
  '.well-known/openid-configuration': () => ({
    id: 'getServiceAccountIssuerOpenIDConfiguration',
    tag: 'WellKnown',
    description: "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'",
    schema: { type: 'string' },
    types: ['application/json'],
    consumes: [],
  }),
  'openid/v1/jwks': () => ({
    id: 'getServiceAccountIssuerOpenIDKeyset',
    tag: 'openid',
    description: 'get service account issuer OpenID JSON Web Key Set (contains public token verification keys)',
    schema: { type: 'string' },
    types: ['application/jwk-set+json'],
    consumes: [],
  }),
};
export const otherDocuments: readonly string[] = Object.keys(otherPaths);

/** Returns the path of a document that belongs to no group, such as `version`. */
export function otherPath(name: string, context: DocumentContext): PathEntry | undefined {
  const operation = otherPaths[name];
  return operation && [`/${name}/`, pathItem([read(operation(context))], context.parameters, context.version)];
}

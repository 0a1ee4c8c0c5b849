import { protobufTable } from '@oarlock/api/generated/protobuf-table';
import { groups, parseApiVersion } from '@oarlock/api/kinds';
import { definitionOf } from '@oarlock/api/schema/schema';
import { keepsZero } from '@oarlock/api/schema/zero-values';

const metaPackage = 'k8s.io.apimachinery.pkg.apis.meta.v1';
const packageExceptions: Readonly<Record<string, string>> = {
  '': 'k8s.io.api.core',
  'apiextensions.k8s.io': 'k8s.io.apiextensions_apiserver.pkg.apis.apiextensions',
  'apiregistration.k8s.io': 'k8s.io.kube_aggregator.pkg.apis.apiregistration',
  'internal.apiserver.k8s.io': 'k8s.io.api.apiserverinternal',
};
const packageOf = (group: string): string =>
  Object.hasOwn(packageExceptions, group) ? (packageExceptions[group] as string) : `k8s.io.api.${group.split('.')[0]}`;
const groupsByPackage: ReadonlyMap<string, string> = new Map(groups.map(({ name }) => [packageOf(name), name]));

export type ScalarType = 'string' | 'bool' | 'int32' | 'int64' | 'bytes' | 'double';
/** The names of messages that are a single value in JSON, or whose members JSON arranges differently. */
export type SpecialType =
  | 'Quantity'
  | 'Time'
  | 'MicroTime'
  | 'IntOrString'
  | 'FieldsV1'
  | 'RawExtension'
  | 'JSON'
  | 'ExtraValue'
  | 'Verbs'
  | 'JSONSchemaPropsOrBool'
  | 'JSONSchemaPropsOrArray'
  | 'JSONSchemaPropsOrStringArray';

export interface FieldDescriptor {
  readonly number: number;
  /** The name of the field in JSON. */
  readonly name: string;
  /** The type of a value; for lists and maps the type of the items or values. */
  readonly type: ScalarType | SpecialType | 'message';
  readonly repeated: boolean;
  readonly map: boolean;
  /** True if the JSON object contains the members of the message instead of a member for the message. */
  readonly inline: boolean;
  /** True if the zero value has a meaning and must be encoded. */
  readonly keepsZero: boolean;
  /** Returns the message descriptor of the field, for message types including special types. */
  readonly message: () => MessageDescriptor;
}

export interface MessageDescriptor {
  readonly name: string;
  readonly byNumber: readonly (FieldDescriptor | undefined)[];
  /** The fields by JSON name, without inline fields. */
  readonly byName: ReadonlyMap<string, FieldDescriptor>;
  readonly inlined: readonly FieldDescriptor[];
}

const scalars: ReadonlySet<string> = new Set<ScalarType>(['string', 'bool', 'int32', 'int64', 'bytes', 'double']);
const specials: ReadonlySet<string> = new Set<SpecialType>([
  'Quantity',
  'Time',
  'MicroTime',
  'IntOrString',
  'FieldsV1',
  'RawExtension',
  'JSON',
  'ExtraValue',
  'Verbs',
  'JSONSchemaPropsOrBool',
  'JSONSchemaPropsOrArray',
  'JSONSchemaPropsOrStringArray',
]);

/** Returns the message descriptor of a kind; undefined if the kind has no protobuf form. Kinds of apimachinery belong to every group. */
export function messageOf(apiVersion: string, kind: string): MessageDescriptor | undefined {
  const { group, version } = parseApiVersion(apiVersion);
  return findMessage(`${packageOf(group)}.${version}.${kind}`) ?? findMessage(`${metaPackage}.${kind}`);
}

type Rows = Readonly<Record<string, Readonly<Record<string, string>>>>;
const messages = new Map<string, MessageDescriptor>();
const tables = new Map<string, Rows>();

/** Returns a message descriptor by its name. @throws Error if there is no message with this name */
export function messageNamed(name: string): MessageDescriptor {
  const message = findMessage(name);
  if (message === undefined) throw new Error(`no message named ${name}`);
  return message;
}

function findMessage(name: string): MessageDescriptor | undefined {
  const known = messages.get(name);
  if (known !== undefined) return known;
  const dot = name.lastIndexOf('.');
  const [pkg, short] = [name.slice(0, dot), name.slice(dot + 1)];
  const table = tableOf(pkg);
  const row = table !== undefined && Object.hasOwn(table, short) ? table[short] : undefined;
  if (row === undefined) return undefined;
  const message = compile(name, pkg, short, row);
  messages.set(name, message);
  return message;
}

function tableOf(pkg: string): Rows | undefined {
  let table = tables.get(pkg);
  if (table === undefined) {
    const text = Object.hasOwn(protobufTable, pkg) ? protobufTable[pkg] : undefined;
    if (text === undefined) return undefined;
    table = JSON.parse(text) as Rows;
    tables.set(pkg, table);
  }
  return table;
}

function compile(name: string, pkg: string, short: string, row: Readonly<Record<string, string>>): MessageDescriptor {
  const id = definitionIdOf(pkg, short);
  const required = new Set(definitionOf(id)?.required);
  const keeps = (field: string) => keepsZero(id, field, required.has(field));
  const fields = Object.entries(row).map(([field, text]) => compileField(short, field, text, keeps));
  const byNumber: (FieldDescriptor | undefined)[] = [];
  for (const field of fields) byNumber[field.number] = field;
  return {
    name,
    byNumber,
    byName: new Map(fields.filter(({ inline }) => !inline).map((field) => [field.name, field])),
    inlined: fields.filter(({ inline }) => inline),
  };
}

/** Returns the ID of a message in the schema tables. */
function definitionIdOf(pkg: string, short: string): string {
  if (pkg === metaPackage) return `meta/v1.${short}`;
  const dot = pkg.lastIndexOf('.');
  const group = groupsByPackage.get(pkg.slice(0, dot));
  return `${group === undefined ? pkg.slice(0, dot) : group || 'core'}/${pkg.slice(dot + 1)}.${short}`;
}

/** Parses a field declaration such as `7 repeated k8s.io.api.core.v1.EnvVar`. */
function compileField(owner: string, field: string, text: string, keeps: (field: string) => boolean): FieldDescriptor {
  const [number = '', ...words] = text.split(' ');
  const inline = words.at(-1) === 'inline';
  const repeated = words[0] === 'repeated';
  const line = words.slice(repeated ? 1 : 0, inline ? -1 : undefined).join(' ');
  const entry = /^map<string,(.*)>$/.exec(line);
  const type = entry?.[1] ?? line;
  const short = type.slice(type.lastIndexOf('.') + 1);
  const name = jsonName(owner, field);
  let message: MessageDescriptor | undefined;
  return {
    number: Number(number),
    name,
    type: scalars.has(type) ? (type as ScalarType) : specials.has(short) ? (short as SpecialType) : 'message',
    repeated,
    map: entry !== null,
    inline,
    keepsZero: keeps(name),
    message: () => (message ??= messageNamed(type)),
  };
}

const jsonNames: Readonly<Record<string, string>> = {
  uID: 'uid',
  aPIGroup: 'apiGroup',
  Webhooks: 'webhooks',
  Expression: 'expression',
  Name: 'name',
};

/** Returns the JSON name of a field, which differs from the protobuf name for some fields. */
function jsonName(owner: string, field: string): string {
  if (owner === 'JSONSchemaProps' && (field === 'ref' || field === 'schema')) return `$${field}`;
  if (Object.hasOwn(jsonNames, field)) return jsonNames[field] as string;
  return field.startsWith('xKubernetes') ? field.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`) : field;
}

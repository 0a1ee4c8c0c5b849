import type { FunctionDeclaration, Library } from '../libraries/library.ts';
import { kubernetesLibraries, storedLibraries } from '../libraries/kubernetes-libraries.ts';
import {
  bool,
  bytes,
  double,
  duration,
  dyn,
  int,
  list,
  map,
  nullType,
  string,
  timestamp,
  typeOf,
  uint,
  type ObjectType,
  type Type,
} from '../types/type.ts';

/** The variables, functions and types that are available to an expression. Immutable. */
export interface Environment {
  variable(name: string): Type | undefined;
  /** Returns all functions with this name, from every library. */
  functions(name: string): readonly FunctionDeclaration[];
  /** Returns the struct type with this name, for struct literals in expressions; undefined if the name is unknown. */
  struct(name: string): ObjectType | undefined;
  /** Returns the type with this name, such as `int` or `google.protobuf.Timestamp`; undefined if the name is unknown. */
  typeName(name: string): Type | undefined;
  /** True if the elements of a list literal, and keys and values of a map literal, must have one type (cel-go's HomogeneousAggregateLiterals). */
  readonly homogeneous: boolean;
  /** True if the macro `cel.bind` is available (cel-go's ext.Bindings). */
  readonly bindings: boolean;
}

export interface EnvironmentOptions {
  /** The variables and their types. A name may be qualified: `authorizer.requestResource`. */
  readonly variables: Readonly<Record<string, Type>>;
  readonly libraries?: readonly Library[];
  readonly struct?: (name: string) => ObjectType | undefined;
  readonly homogeneous?: boolean;
  readonly bindings?: boolean;
}

const typeNames = new Map<string, Type>([
  ['bool', bool],
  ['int', int],
  ['uint', uint],
  ['double', double],
  ['string', string],
  ['bytes', bytes],
  ['list', list(dyn)],
  ['map', map(dyn, dyn)],
  ['null_type', nullType],
  ['type', typeOf()],
  ['google.protobuf.Timestamp', timestamp],
  ['google.protobuf.Duration', duration],
]);

export function environment(options: EnvironmentOptions): Environment {
  const { variables, libraries = [], struct = () => undefined, homogeneous = false, bindings = false } = options;
  const types = new Map(Object.entries(variables));
  const functions = functionsOf(libraries);
  return {
    homogeneous,
    bindings,
    variable: (name) => types.get(name),
    functions: (name) => functions.get(name) ?? [],
    struct,
    typeName: (name) => typeNames.get(name),
  };
}

const tables = new WeakMap<readonly Library[], ReadonlyMap<string, readonly FunctionDeclaration[]>>();

function functionsOf(libraries: readonly Library[]): ReadonlyMap<string, readonly FunctionDeclaration[]> {
  let table = tables.get(libraries);
  if (table === undefined) {
    const byName = new Map<string, FunctionDeclaration[]>();
    for (const library of libraries)
      for (const each of library.functions) {
        const known = byName.get(each.name);
        if (known === undefined) byName.set(each.name, [each]);
        else known.push(each);
      }
    table = byName;
    tables.set(libraries, table);
  }
  return table;
}

/** Returns the base environment of Kubernetes 1.36, in which new expressions compile, extended by `options` (NewExpressions upstream). */
export const kubernetesEnvironment = (options: Omit<EnvironmentOptions, 'homogeneous'>): Environment =>
  environment({ libraries: kubernetesLibraries, homogeneous: true, ...options });

/**
 * Returns the environment of expressions that are stored in objects (StoredExpressions upstream): it offers everything that any version has offered.
 * Stored expressions are evaluated in it, and an update compiles its unchanged expressions in it.
 */
export const storedEnvironment = (options: Pick<EnvironmentOptions, 'variables' | 'struct'>): Environment =>
  environment({ libraries: storedLibraries, homogeneous: true, bindings: true, ...options });

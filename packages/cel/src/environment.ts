import type { Fn, Library } from './library.ts';
import { kubernetesLibraries } from './libraries.ts';
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
} from './type.ts';

/** What an expression may name. Immutable. */
export interface Environment {
  variable(name: string): Type | undefined;
  /** All functions of a name, of every library. */
  functions(name: string): readonly Fn[];
  /** A struct that an expression may make by its name. */
  struct(name: string): ObjectType | undefined;
  /** The type that a name stands for: `int`, `google.protobuf.Timestamp`. */
  typeName(name: string): Type | undefined;
  /** Elements of a list, and keys and values of a map that an expression writes down are of one type. */
  readonly homogeneous: boolean;
}

export interface EnvironmentOptions {
  /** Names may be dotted: `authorizer.requestResource`. */
  readonly variables: Readonly<Record<string, Type>>;
  readonly libraries?: readonly Library[];
  readonly struct?: (name: string) => ObjectType | undefined;
  readonly homogeneous?: boolean;
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

export function environment({ variables, libraries = [], struct = () => undefined, homogeneous = false }: EnvironmentOptions): Environment {
  const types = new Map(Object.entries(variables));
  const functions = functionsOf(libraries);
  return {
    homogeneous,
    variable: (name) => types.get(name),
    functions: (name) => functions.get(name) ?? [],
    struct,
    typeName: (name) => typeNames.get(name),
  };
}

const tables = new WeakMap<readonly Library[], ReadonlyMap<string, readonly Fn[]>>();

function functionsOf(libraries: readonly Library[]): ReadonlyMap<string, readonly Fn[]> {
  let table = tables.get(libraries);
  if (table === undefined) {
    const made = new Map<string, Fn[]>();
    for (const library of libraries)
      for (const each of library.functions) {
        const known = made.get(each.name);
        if (known === undefined) made.set(each.name, [each]);
        else known.push(each);
      }
    table = made;
    tables.set(libraries, table);
  }
  return table;
}

/** The language with everything that Kubernetes 1.36 adds to it. */
export const kubernetesEnvironment = (options: Pick<EnvironmentOptions, 'variables' | 'struct'>): Environment =>
  environment({ libraries: kubernetesLibraries, homogeneous: true, ...options });

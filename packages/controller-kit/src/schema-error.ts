/** A zod schema, or a part of one, that a structural schema cannot express. */
export class SchemaError extends Error {
  override readonly name = 'SchemaError';
  /** The path of the field, such as `spec.ports[].name`. */
  readonly path: string;
  constructor(path: string, problem: string) {
    super(`${path === '' ? 'the schema' : path}: ${problem}`);
    this.path = path;
  }
}

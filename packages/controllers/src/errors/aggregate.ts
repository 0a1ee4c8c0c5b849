/** Returns one error for several, with the messages in brackets as Go's `errors.NewAggregate` prints them. Returns a single error itself. */
export function aggregate(errors: readonly Error[]): Error {
  const [first] = errors;
  if (errors.length === 1 && first !== undefined) return first;
  return new AggregateError(errors, `[${[...new Set(errors.map(({ message }) => message))].join(', ')}]`);
}

import { parseIPNumber, familyOf, formatIPNumber, type IPFamily } from '@oarlock/api/net/ip-number';

const maxOfRange = 65_536n;

/** Addresses of CIDRs (without the network's own and, for IPv4, the broadcast address), of `first-last`, and single ones, in order. */
export class AddressPool {
  readonly #ranges: readonly { readonly family: IPFamily; readonly first: bigint; readonly last: bigint }[];

  /** @throws RangeError for an invalid range, or one of more than 65,536 addresses */
  constructor(ranges: readonly string[]) {
    this.#ranges = ranges.map((text) => {
      const [from = '', to = from] = text.includes('/') ? cidr(text) : text.split('-');
      const [first, last, family] = [parseIPNumber(from), parseIPNumber(to), familyOf(from)];
      if (first === undefined || last === undefined || family === undefined || family !== familyOf(to) || last < first)
        throw new RangeError(`${text} is not an address range such as 10.0.0.240/28 or 10.0.0.240-10.0.0.250`);
      if (last - first >= maxOfRange) throw new RangeError(`${text} has more than ${maxOfRange} addresses`);
      return { family, first, last };
    });
  }

  has(address: string): boolean {
    const [value, family] = [parseIPNumber(address), familyOf(address)];
    return value !== undefined && this.#ranges.some((range) => range.family === family && value >= range.first && value <= range.last);
  }

  *all(family: IPFamily): Generator<string> {
    for (const range of this.#ranges)
      if (range.family === family) for (let value = range.first; value <= range.last; value++) yield formatIPNumber(value, family);
  }
}

function cidr(text: string): readonly string[] {
  const [base = '', bits = ''] = text.split('/');
  const [value, family] = [parseIPNumber(base), familyOf(base)];
  const width = family === 'IPv6' ? 128 : 32;
  if (value === undefined || family === undefined || !/^\d{1,3}$/.test(bits) || Number(bits) > width) return [text];
  const size = 1n << BigInt(width - Number(bits));
  const first = (value / size) * size;
  if (size < 4n) return [formatIPNumber(first, family), formatIPNumber(first + size - 1n, family)];
  return [formatIPNumber(first + 1n, family), formatIPNumber(first + size - (family === 'IPv4' ? 2n : 1n), family)];
}

import type { Device, DeviceAttribute, DeviceConstraint } from '@oarlock/api/types/resource-v1';

/**
 * Returns the value of an attribute as JSON, for comparison, or undefined if the device lacks the attribute. The device may omit the domain in the
 * attribute's name if the domain is the driver.
 */
function valueOf({ attributes = {} }: Device, driver: string, name: string): string | undefined {
  const slash = name.indexOf('/');
  const own = slash >= 0 && name.slice(0, slash) === driver ? attributes[name.slice(slash + 1)] : undefined;
  const found: DeviceAttribute | undefined = attributes[name] ?? own;
  return found && JSON.stringify(found);
}

/** Checks one constraint of a claim: the devices of some requests must have the same value of an attribute, or distinct values. */
export class DeviceConstraintMatcher {
  readonly #requests: readonly string[] | undefined;
  readonly #attribute: string;
  readonly #distinct: boolean;
  readonly #values: string[] = [];

  constructor({ requests = [], matchAttribute, distinctAttribute }: DeviceConstraint) {
    this.#requests = requests.length === 0 ? undefined : requests;
    this.#attribute = matchAttribute ?? distinctAttribute ?? '';
    this.#distinct = matchAttribute === undefined;
  }

  /** Adds a device if it satisfies the constraint. Returns false otherwise. */
  add(request: string, device: Device, driver: string): boolean {
    if (!this.#concerns(request)) return true;
    const value = valueOf(device, driver, this.#attribute);
    if (value === undefined) return false;
    if (this.#values.length > 0 && (this.#distinct ? this.#values.includes(value) : this.#values[0] !== value)) return false;
    this.#values.push(value);
    return true;
  }
  /** Removes the device that was added last. */
  remove(request: string): void {
    if (this.#concerns(request)) this.#values.pop();
  }

  /** Returns true if the constraint applies to a request. The name of a request includes its alternatives: `gpu` includes `gpu/large`. */
  #concerns(request: string): boolean {
    return this.#requests === undefined || this.#requests.some((each) => each === request || request.startsWith(`${each}/`));
  }
}

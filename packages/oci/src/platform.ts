/** A platform in the terms of Go, as image indexes name it: `linux`, `amd64`, and for arm the variant, such as `v7`. */
export interface Platform {
  readonly os: string;
  readonly architecture: string;
  readonly variant?: string;
}

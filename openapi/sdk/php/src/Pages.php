<?php

declare(strict_types=1);

namespace PartnerSdk;

/** Lists that come a page at a time. */
final class Pages
{
    /**
     * Reads a list to its end, newest first.
     *
     * @param callable(?string): object $read reads the page of a cursor, the first one with null; filters stay the same on every page
     * @return \Generator<int, mixed>
     */
    public static function each(callable $read): \Generator
    {
        $cursor = null;
        do {
            $page = $read($cursor);
            foreach ($page->getItems() as $item) {
                yield $item;
            }
            $cursor = $page->getNextCursor();
        } while ($cursor !== null);
    }
}

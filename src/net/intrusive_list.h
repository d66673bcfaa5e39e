// Lists of objects that carry their own links: nothing is allocated, and an object leaves its list in O(1).
#pragma once

namespace penstock::net {

// Base of what may stand in one list at a time for each Tag. Leaves its list when it ends.
template <class Tag>
class ListHook {
 public:
  ListHook() = default;
  ListHook(const ListHook&) = delete;
  ListHook& operator=(const ListHook&) = delete;
  ~ListHook() { unlink(); }

  void unlink() {
    previous_->next_ = next_;
    next_->previous_ = previous_;
    previous_ = next_ = this;
  }

 private:
  template <class T, class OfTag>
  friend class IntrusiveList;

  void insert_behind(ListHook& place) {
    previous_ = &place;
    next_ = place.next_;
    next_->previous_ = this;
    place.next_ = this;
  }

  ListHook* previous_ = this;
  ListHook* next_ = this;
};

// Owns nothing. T derives from ListHook<Tag>; what is pushed leaves the list that it stood in.
template <class T, class Tag>
class IntrusiveList {
 public:
  [[nodiscard]] bool empty() const { return ends_.next_ == &ends_; }
  [[nodiscard]] T& front() { return static_cast<T&>(*ends_.next_); }
  // None behind the last.
  [[nodiscard]] T* behind(T& item) {
    ListHook<Tag>* next = static_cast<ListHook<Tag>&>(item).next_;
    return next == &ends_ ? nullptr : static_cast<T*>(next);
  }
  void push_front(T& item) {
    ListHook<Tag>& hook = item;
    hook.unlink();
    hook.insert_behind(ends_);
  }
  void push_back(T& item) {
    ListHook<Tag>& hook = item;
    hook.unlink();
    hook.insert_behind(*ends_.previous_);
  }

 private:
  ListHook<Tag> ends_;
};

}  // namespace penstock::net
